//! Starts a listener, and sends bytes to it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::bed::Bed;

pub(super) const LIST: &str = r#"{"kind": "ClusterList", "items": [{"metadata": {"name": "m1"}}, {"metadata": {"name": "m2"}}, {"metadata": {"name": "m3"}}]}"#;
/// The timeout of a hanging test.
const LONG: Duration = Duration::from_secs(60);

/// A host with TLS and three members, all of which answer `here`.
pub(super) fn bed() -> Bed {
    let bed = Bed::serving(|path| match path.contains("/proxy/") {
        true => (200, "text/plain", "here".to_owned()),
        false => (200, "application/json", LIST.to_owned()),
    });
    bed.secure();
    bed
}

/// A whole request, after which the connection closes.
pub(super) fn get(host: &str, path: &str, token: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    )
}

/// A running listener, which ends when this value is dropped.
pub(super) struct Listening {
    pub(super) child: Child,
    pub(super) port: u16,
    pub(super) kubeconfig: PathBuf,
    pub(super) certificates: PathBuf,
    header: Option<PathBuf>,
    /// Empty without one.
    pub(super) token: String,
    out: String,
    rest: BufReader<std::process::ChildStdout>,
}

impl Listening {
    /// Starts a listener, and waits until it has printed how to use it.
    pub(super) fn start(bed: &Bed, words: &[&str]) -> Self {
        let mut command = bed.command(&[&["listen"], words].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut rest = BufReader::new(child.stdout.take().unwrap());
        let mut out = String::new();
        while !out.contains("/version\n") {
            let count = rest.read_line(&mut out).unwrap();
            assert!(count > 0, "{out}{}", read_all(&mut child.stderr.take().unwrap()));
        }
        let after = |begin: &str| {
            let rest = &out[out.find(begin)? + begin.len()..];
            rest.split_ascii_whitespace().next().map(str::to_owned)
        };
        let address = after("Listening on ").unwrap();
        let header = after(" -H @").map(PathBuf::from);
        let token = header.as_ref().map_or_else(String::new, |file| {
            let text = fs::read_to_string(file).unwrap();
            text.trim().strip_prefix("Authorization: Bearer ").unwrap().to_owned()
        });
        assert!(header.is_none() || token.len() >= 43, "256 bits");
        // The arguments that choose clusters.
        bed.requests();
        Self {
            port: address.rsplit_once(':').unwrap().1.parse().unwrap(),
            kubeconfig: after("KUBECONFIG=").unwrap().into(),
            certificates: after("--cacert ").unwrap().into(),
            header,
            token,
            child,
            out,
            rest,
        }
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        let header = self.header.iter().cloned();
        [self.kubeconfig.clone(), self.certificates.clone()].into_iter().chain(header).collect()
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// The response to a request with the token, by the first form of a path.
    pub(super) fn get(&self, path: &str) -> String {
        self.send(&get(&format!("127.0.0.1:{}", self.port), path, &self.token))
    }

    /// Everything that is received until the connection ends.
    pub(super) fn send(&self, request: &str) -> String {
        let mut stream = self.connect();
        // The listener may refuse a request before its end.
        let _ = stream.write_all(request.as_bytes());
        read_all(&mut stream)
    }

    /// The same over TLS, verified with the listener's certificate authority.
    pub(super) fn send_by_tls(&self, name: &str, request: &str) -> String {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(&self.certificates).unwrap();
        roots.add(authority).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(connection, self.connect());
        stream.write_all(request.as_bytes()).unwrap();
        read_all(&mut stream)
    }

    /// Ends the listener as Ctrl-C does; returns its standard output and standard error.
    pub(super) fn interrupt(&mut self) -> (String, String) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(130));
        let mut err = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        self.rest.read_to_string(&mut self.out).unwrap();
        (self.out.clone(), err)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All bytes until the end of a connection, even if it is reset.
pub(super) fn read_all(stream: &mut impl Read) -> String {
    let mut all = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => all.extend_from_slice(&part[..count]),
            Err(error) => {
                assert!(error.kind() != std::io::ErrorKind::WouldBlock, "no end");
                break;
            }
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}
