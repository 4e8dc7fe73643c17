//! A member that misbehaves on demand: a TLS server with a CA of its own, registered on
//! the host like any other, that remembers every byte it was sent and answers by a script.

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
    /// Writes this so many times.
    Repeat(Vec<u8>, usize),
    /// Waits until the test lets it go on.
    Wait(Gate),
    /// Keeps what the client sends until there are so many bytes.
    Receive(usize),
    /// Keeps what the client sends until it stops.
    ReceiveAll,
    /// Sends back what comes, until the client stops.
    Echo,
    /// Sends and compares at the same time, until both sides have finished.
    Exchange(Exchange),
    /// Writes this again and again with a pause after each, until the client is gone.
    Trickle(Vec<u8>, Duration),
    /// Lets so much time pass.
    Pause(Duration),
    /// Says that it will send no more (a TLS goodbye), and goes on.
    Finish,
    /// Closes without a word.
    Close,
    /// Neither reads nor writes, and stays.
    Hang,
}

/// Noise both ways over one connection.
#[derive(Clone)]
pub struct Exchange {
    pub sends: Noise,
    pub expects: Noise,
    /// Says that it has finished as soon as it has, and not only after the client did.
    pub finishes_first: bool,
    /// Is told at the end whether all that came was as expected, and whether it was everything.
    pub tell: Arc<dyn Fn(Came) + Send + Sync>,
}

/// What came over a connection, beside what should have.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    pub as_expected: bool,
    pub missing: u64,
}

/// An answer of one piece.
pub fn reply(status: &str, headers: &str, body: &str) -> Vec<Step> {
    let length = body.len();
    vec![Step::Send(
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n{body}").into_bytes(),
    )]
}

/// Agrees to a WebSocket with this subprotocol (RFC 6455, 4.2.2).
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

/// How it presents itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manners {
    /// Its certificate is of another time.
    pub expired: bool,
    pub only_tls12: bool,
    /// It closes connections by a reset.
    pub resets: bool,
    /// It remembers no request: the script sees each, and there are too many to keep.
    pub forgets: bool,
    /// The script sees the sidecar's probes too, and they are remembered. Else they come at any time and are
    /// nothing to the test: they are answered by 200.
    pub probed: bool,
}

/// Who is let in: while it is shut, connections are accepted and closed without a word.
#[derive(Clone, Default)]
struct Door {
    shut: Arc<AtomicBool>,
    knocked: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
}

/// Holds a script up until it is opened.
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

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which of the member's connections it came on.
    pub connection: usize,
    /// The head, byte for byte.
    pub head: String,
    /// The body, and whatever else came on the connection while the script received.
    pub received: Vec<u8>,
    /// The client stopped sending, or its connection broke while the member sent.
    pub ended: bool,
}

impl Request {
    /// The target in the request line.
    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// Whether it is a question of the sidecar's own, and no caller's.
    fn is_probe(&self) -> bool {
        let asked = self.head.starts_with("GET /readyz ") || self.head.starts_with("GET /version ");
        asked && self.values("impersonate-user").is_empty()
    }

    /// All values of a header, whatever its case, in their order.
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

/// The member, until it is let go.
pub struct FakeMember {
    pub name: String,
    /// The credential that the sidecar holds for it.
    pub token: String,
    pub address: SocketAddr,
    ca: String,
    door: Door,
    requests: watch::Receiver<Vec<Request>>,
    runtime: Runtime,
}

impl FakeMember {
    /// A member that answers each request by the steps that the script makes of it, registered and reachable.
    pub fn start(name: &str, script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static) -> Result<Self> {
        let fake = Self::unregistered(name, script)?;
        fake.register(&json!({}))?;
        fake.wait_until_reachable()?;
        Ok(fake)
    }

    /// The same, not yet known to the host.
    pub fn unregistered(
        name: &str,
        script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::with(name, Manners::default(), script)
    }

    /// The same, whose script answers the sidecar's probes as well.
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

    /// Registers it on the host, with keys of the Secret more or other.
    pub fn register(&self, keys: &Value) -> Result<()> {
        register(&self.name, &self.secret(keys))
    }

    /// What its Secret holds, with keys more or other.
    pub fn secret(&self, keys: &Value) -> Value {
        let mut data = json!({
            "server": format!("https://{}", self.address), "ca.crt": self.ca, "token": self.token,
        });
        if let (Some(data), Some(keys)) = (data.as_object_mut(), keys.as_object()) {
            data.extend(keys.clone());
        }
        data
    }

    /// Until a call through the host gets here.
    pub fn wait_until_reachable(&self) -> Result<()> {
        let host = host()?;
        let path = member_path(&self.name, READY);
        eventually("the fake member is reachable through the host", SOON, || host.get(&path).map(Some))?;
        Ok(())
    }

    /// The requests so far whose target holds this.
    pub fn requests(&self, target: &str) -> Vec<Request> {
        self.requests.borrow().iter().filter(|request| request.target().contains(target)).cloned().collect()
    }

    /// The first request whose target holds this, as soon as it is as wanted.
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

    /// From now on connections are accepted and closed without a word, until it is opened again.
    pub fn shut(&self, shut: bool) {
        self.door.shut.store(shut, Ordering::SeqCst);
    }

    /// How many connections there were, let in or not.
    pub fn knocked(&self) -> usize {
        self.door.knocked.load(Ordering::SeqCst)
    }

    /// How many connections are open.
    pub fn open_connections(&self) -> usize {
        self.door.open.load(Ordering::SeqCst)
    }

    /// The certificate authority of its server certificate.
    pub fn ca(&self) -> &str {
        &self.ca
    }
}

/// The name in its certificate beside its address, for members that are reached by another name.
pub const SERVER_NAME: &str = "fake.member.test";

/// Always answered by 200, whatever the script.
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
    fn a_web_socket_is_agreed_to_as_the_standard_shows_it() {
        let head = "GET / HTTP/1.1\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".to_owned();
        let request = Request { connection: 0, head, received: Vec::new(), ended: false };
        let Step::Send(answer) = open_web_socket(&request, "v5") else { panic!("nothing is sent") };
        assert!(String::from_utf8(answer).unwrap().contains("Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    }

    #[test]
    fn a_header_is_found_whatever_its_case_and_every_time() {
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
