//! A member that misbehaves on demand: a TLS server with its own CA, registered on the host like
//! any other. It records the requests that it gets, and a script answers them.

mod server;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::bed::{bed, host};
use crate::http1::member_path;
use crate::noise::Noise;
use crate::registration::register;
use crate::wait::{SOON, eventually};

/// What the member does next, once it has read a request's head and announced body.
#[derive(Clone)]
pub enum Step {
    /// Writes this as it is.
    Send(Vec<u8>),
    /// Writes this that many times.
    Repeat(Vec<u8>, usize),
    /// Waits until the test opens the gate.
    Wait(Gate),
    /// Records what the client sends until this many bytes have arrived.
    Receive(usize),
    /// Records what the client sends until it stops.
    ReceiveAll,
    /// Sends back what arrives, until the client stops.
    Echo,
    /// Sends and compares at the same time, until both sides have finished.
    Exchange(Exchange),
    /// Writes this again and again with a pause after each, until the client is gone.
    Trickle(Vec<u8>, Duration),
    /// Lets this much time pass.
    Pause(Duration),
    /// Sends a TLS close_notify, and continues with the next step.
    Finish,
    /// Closes the connection.
    Close,
    /// Neither reads nor writes, and keeps the connection open.
    Hang,
}

/// Noise in both directions over one connection.
#[derive(Clone)]
pub struct Exchange {
    pub sends: Noise,
    pub expects: Noise,
    /// Whether it closes its side as soon as it has sent everything, instead of after the client
    /// has closed.
    pub finishes_first: bool,
    /// Is called at the end with the comparison of received and expected bytes.
    pub tell: Arc<dyn Fn(Came) + Send + Sync>,
}

/// The bytes that arrived on a connection, compared with the expected ones.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    pub as_expected: bool,
    pub missing: u64,
}

/// An answer with a Content-Length, in one piece.
pub fn reply(status: &str, headers: &str, body: &str) -> Vec<Step> {
    let length = body.len();
    vec![Step::Send(
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n{body}").into_bytes(),
    )]
}

/// Accepts a WebSocket with this subprotocol (RFC 6455, 4.2.2).
pub fn open_web_socket(request: &Request, subprotocol: &str) -> Step {
    let key = request.values("sec-websocket-key").concat();
    let digest =
        digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes());
    let accept = STANDARD.encode(digest);
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
    );
    Step::Send(head.into())
}

/// A plain 200.
pub fn ok() -> Vec<Step> {
    reply("200 OK", "Content-Type: application/json\r\n", "{}")
}

/// How the member behaves as a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manners {
    /// Its certificate has expired.
    pub expired: bool,
    pub only_tls12: bool,
    /// It closes connections by a reset.
    pub resets: bool,
    /// It records no request, because there are too many; the script still sees each.
    pub forgets: bool,
    /// The script also sees the sidecar's probes, and they are recorded. Otherwise the member
    /// itself answers them with 200, because they arrive at any time and tests do not need them.
    pub probed: bool,
}

/// While it is shut, connections are accepted and closed at once.
#[derive(Clone, Default)]
struct Door {
    shut: Arc<AtomicBool>,
    knocked: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
}

/// Blocks a script until it is opened.
#[derive(Clone)]
pub struct Gate(watch::Sender<bool>);

impl Gate {
    pub fn closed() -> Self {
        Self(watch::Sender::new(false))
    }

    pub fn open(&self) {
        self.0.send_replace(true);
    }
}

/// A request as the member received it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The number of the member's connection.
    pub connection: usize,
    /// The head, byte for byte.
    pub head: String,
    /// The body, and other bytes that arrived on the connection while the script received.
    pub received: Vec<u8>,
    /// Whether the client stopped sending, or its connection broke while the member sent.
    pub ended: bool,
}

impl Request {
    /// The target in the request line.
    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// Whether it is a probe of the sidecar itself, and not a caller's request.
    fn is_probe(&self) -> bool {
        let asked = self.head.starts_with("GET /readyz ") || self.head.starts_with("GET /version ");
        asked && self.values("impersonate-user").is_empty()
    }

    /// All values of a header in order, regardless of the case of its name.
    pub fn values(&self, name: &str) -> Vec<&str> {
        self.head
            .split("\r\n")
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .filter(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect()
    }
}

/// The member, until this is dropped.
pub struct FakeMember {
    pub name: String,
    /// The credential that the sidecar has for it.
    pub token: String,
    pub address: SocketAddr,
    ca: String,
    door: Door,
    requests: watch::Receiver<Vec<Request>>,
    runtime: Runtime,
}

impl FakeMember {
    /// A member that answers each request with the steps that the script returns. It is registered
    /// and reachable.
    pub fn start(name: &str, script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static) -> Result<Self> {
        let fake = Self::unregistered(name, script)?;
        fake.register(&json!({}))?;
        fake.wait_until_reachable()?;
        fake.wait_for_conditions()?;
        Ok(fake)
    }

    /// The same, not yet registered on the host.
    pub fn unregistered(
        name: &str,
        script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::with(name, Manners::default(), script)
    }

    /// The same, with a script that also answers the sidecar's probes.
    pub fn probed(
        name: &str,
        script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::with(name, Manners { probed: true, ..Manners::default() }, script)
    }

    /// The same with other manners.
    pub fn with(
        name: &str,
        manners: Manners,
        script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((bed()?.address, 0)))?;
        let address = listener.local_addr()?;
        let issuer = issuer()?;
        let key = KeyPair::generate()?;
        let mut leaf = CertificateParams::new([address.ip().to_string(), SERVER_NAME.to_owned()])?;
        if manners.expired {
            leaf.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        let leaf = leaf.signed_by(&key, &issuer)?;
        let (sender, requests) = watch::channel(Vec::new());
        let acceptor = server::acceptor(leaf.der().clone(), key.serialize_der(), manners)?;
        let door = Door::default();
        runtime.spawn(server::run(listener, acceptor, script, sender, door.clone(), manners));
        Ok(Self {
            name: name.to_owned(),
            token: format!("token-of-the-member-{name}"),
            address,
            ca: issuer.pem(),
            door,
            requests,
            runtime,
        })
    }

    /// Registers it on the host, with these keys added to its Secret or replaced in it.
    pub fn register(&self, keys: &Value) -> Result<()> {
        register(&self.name, &self.secret(keys))
    }

    /// The data of its Secret, with these keys added or replaced.
    pub fn secret(&self, keys: &Value) -> Value {
        let mut data = json!({
            "server": format!("https://{}", self.address), "ca.crt": self.ca, "token": self.token,
        });
        if let (Some(data), Some(keys)) = (data.as_object_mut(), keys.as_object()) {
            data.extend(keys.clone());
        }
        data
    }

    /// Waits until a request through the host reaches the member.
    pub fn wait_until_reachable(&self) -> Result<()> {
        let host = host()?;
        let path = member_path(&self.name, READY);
        eventually("the fake member is reachable through the host", SOON, || host.get(&path).map(Some))?;
        Ok(())
    }

    /// Waits until its conditions are those of a member with a Secret: the sidecar may see the
    /// MemberCluster first, and a command with a pattern would then find a member that is not
    /// ready.
    fn wait_for_conditions(&self) -> Result<()> {
        let path = format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{}", self.name);
        let host = host()?;
        eventually("the fake member has its conditions", SOON, || {
            let conditions = host.get(&path)?["status"]["conditions"].take();
            Ok((conditions.is_array() && !conditions.to_string().contains("does not exist")).then_some(()))
        })
    }

    /// The requests so far whose target contains this.
    pub fn requests(&self, target: &str) -> Vec<Request> {
        self.requests.borrow().iter().filter(|request| request.target().contains(target)).cloned().collect()
    }

    /// Waits for the first request whose target contains this and that is as wanted, and returns
    /// it.
    pub fn wait_for(&self, target: &str, wanted: impl Fn(&Request) -> bool) -> Result<Request> {
        let mut requests = self.requests.clone();
        let first = |all: &Vec<Request>| {
            all.iter().find(|request| request.target().contains(target) && wanted(request)).cloned()
        };
        let waited = self.runtime.block_on(async {
            let patience = tokio::time::timeout(PATIENCE, requests.wait_for(|all| first(all).is_some()));
            patience.await.map(|changed| changed.map(|all| first(&all)))
        });
        waited
            .with_context(|| format!("no such request for {target}: {:?}", self.requests(target)))??
            .context("the fake member is gone")
    }

    /// If `shut`, connections are accepted and closed at once from now on, until it is opened again.
    pub fn shut(&self, shut: bool) {
        self.door.shut.store(shut, Ordering::SeqCst);
    }

    /// The number of connections so far, served or closed at once.
    pub fn knocked(&self) -> usize {
        self.door.knocked.load(Ordering::SeqCst)
    }

    /// The number of open connections.
    pub fn open_connections(&self) -> usize {
        self.door.open.load(Ordering::SeqCst)
    }

    /// The certificate authority of its server certificate.
    pub fn ca(&self) -> &str {
        &self.ca
    }
}

/// The name in its certificate in addition to its address, for members that are reached by another
/// name.
pub const SERVER_NAME: &str = "fake.member.test";

/// Always answered with 200, whatever the script does.
const READY: &str = "/harness-ready";

const PATIENCE: Duration = SOON;

fn issuer() -> Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_socket_handshake_matches_the_example_of_the_rfc() {
        let head = "GET / HTTP/1.1\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".to_owned();
        let request = Request { connection: 0, head, received: Vec::new(), ended: false };
        let Step::Send(answer) = open_web_socket(&request, "v5") else { panic!("nothing is sent") };
        assert!(String::from_utf8(answer).unwrap().contains("Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    }

    #[test]
    fn all_values_of_a_header_are_found_in_any_case() {
        let request = Request {
            connection: 0,
            head: "GET /a?b HTTP/1.1\r\nimpersonate-user: x\r\nImpersonate-User: y\r\n\r\n".to_owned(),
            received: Vec::new(),
            ended: false,
        };
        assert_eq!(request.values("Impersonate-User"), ["x", "y"]);
        assert_eq!(request.target(), "/a?b");
    }
}
