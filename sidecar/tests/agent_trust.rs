//! Tests which servers get an agent's token: with a pinned CA only the host, regardless of other
//! CAs that the system trusts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::PrivateKeyDer;

/// The server has the host's address, and its certificate comes from a CA that the system trusts,
/// as if a thief had taken over the host's DNS name.
#[test]
fn fault_45_pinned_agent_sends_no_token_to_another_ca() {
    let (host, public) = (Authority::new("host"), Authority::new("public"));
    let server = Server::new(&public);
    let agent = Agent::start(&server, &public, Some(&host.pem()));
    for _ in 0..2 {
        let refused = server.next().unwrap_err();
        assert!(refused.contains("UnknownCA"), "{refused}");
    }
    let log = agent.end();
    assert!(log.contains("UnknownIssuer") && !log.contains(UNPINNED), "{log}");
}

/// During a rotation, the file contains the old and the new CA.
#[test]
fn agent_follows_its_ca_file_without_a_restart() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let server = Server::new(&new);
    let agent = Agent::start(&server, &new, Some(&old.pem()));
    let mut attempts = std::iter::repeat_with(|| server.next());
    assert!(attempts.next().unwrap().is_err());
    agent.write("ca.crt", &format!("{}{}", old.pem(), new.pem()));
    let head = attempts.find_map(Result::ok).unwrap();
    assert!(head.contains("the-token"), "{head}");
    agent.write("ca.crt", &old.pem());
    let refused = attempts.find_map(Result::err).unwrap();
    assert!(refused.contains("UnknownCA"), "{refused}");
}

#[test]
fn agent_without_a_pinned_ca_warns_at_the_start() {
    let public = Authority::new("public");
    let server = Server::new(&public);
    let agent = Agent::start(&server, &public, None);
    let head = server.next().unwrap();
    assert!(head.contains("the-token"), "{head}");
    let log = agent.end();
    assert_eq!(log.matches(UNPINNED).count(), 1, "{log}");
    assert!(log.contains("kubectl mc join m1 --agent --renew --agent-server-ca=FILE"), "{log}");
}

const UNPINNED: &str = "no pinned CA for the host";

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn server(&self) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let chain = vec![params.signed_by(&key, &self.0).unwrap().der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        Arc::new(config.with_single_cert(chain, key).unwrap())
    }
}

/// A server that takes the head of each request and then closes the connection.
struct Server {
    address: SocketAddr,
    /// The heads, or the reason why a connection has none.
    attempts: Receiver<Result<String, String>>,
}

impl Server {
    fn new(authority: &Authority) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, attempts) = channel();
        let config = authority.server();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (config, sender) = (config.clone(), sender.clone());
                std::thread::spawn(move || attempt(stream.unwrap(), config, &sender));
            }
        });
        Self { address, attempts }
    }

    fn next(&self) -> Result<String, String> {
        self.attempts.recv_timeout(Duration::from_secs(60)).unwrap()
    }
}

fn attempt(stream: TcpStream, config: Arc<ServerConfig>, attempts: &Sender<Result<String, String>>) {
    let mut stream = BufReader::new(StreamOwned::new(ServerConnection::new(config).unwrap(), stream));
    let mut head = String::new();
    let read = loop {
        match stream.read_line(&mut head) {
            Ok(2..) if head.ends_with("\r\n\r\n") => break Ok(head),
            Ok(1..) => {}
            Ok(0) => break Err(format!("closed after {head:?}")),
            Err(error) => break Err(format!("{error} after {head:?}")),
        }
    };
    // The test may be over.
    let _ = attempts.send(read);
}

/// An agent's process. It is killed when this is dropped.
struct Agent {
    process: Child,
    folder: tempfile::TempDir,
}

impl Agent {
    /// The system trusts `system`.
    fn start(server: &Server, system: &Authority, pinned: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("connection")).unwrap();
        let server = format!("https://{}", server.address);
        for (key, value) in [("server", Some(&*server)), ("token", Some("the-token")), ("ca.crt", pinned)] {
            if let Some(value) = value {
                fs::write(path("connection").join(key), value).unwrap();
            }
        }
        fs::write(path("system.pem"), system.pem()).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_mc-sidecar"))
            .args([
                "agent",
                "--cluster=m1",
                "--tunnels=1",
                "--admin-bind-address=127.0.0.1:0",
                "--log-format=json",
            ])
            .arg(format!("--connection-dir={}", path("connection").display()))
            .env_clear()
            .env("SSL_CERT_FILE", path("system.pem"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(path("log")).unwrap())
            .spawn()
            .unwrap();
        Self { process, folder }
    }

    /// Replaces a file of the connection atomically, like a mounted Secret.
    fn write(&self, key: &str, value: &str) {
        let path = |name: &str| self.folder.path().join(name);
        fs::write(path("new"), value).unwrap();
        fs::rename(path("new"), path("connection").join(key)).unwrap();
    }

    /// Ends the process and returns its log.
    fn end(mut self) -> String {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
