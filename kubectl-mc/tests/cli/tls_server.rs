//! An HTTPS server that answers each request with a function of its path, and records the requests.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    fn config(&self) -> Arc<ServerConfig> {
        Leaf::signed_by(self).config
    }
}

/// A certificate for 127.0.0.1, with the server's settings.
pub(crate) struct Leaf {
    pub(crate) pem: String,
    config: Arc<ServerConfig>,
}

impl Leaf {
    pub(crate) fn signed_by(authority: &Authority) -> Self {
        Self::new(|params, key| params.signed_by(key, &authority.0).unwrap())
    }

    pub(crate) fn self_signed() -> Self {
        Self::new(|params, key| params.self_signed(key).unwrap())
    }

    fn new(sign: impl FnOnce(CertificateParams, &KeyPair) -> Certificate) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = sign(params, &key);
        let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        Self { pem: certificate.pem(), config: Arc::new(config) }
    }
}

/// Serves TLS in front of a server without it, on the returned port.
pub(crate) fn front(authority: &Authority, behind: u16) -> u16 {
    front_of(&Leaf::signed_by(authority), behind)
}

/// The same with this certificate.
pub(crate) fn front_of(leaf: &Leaf, behind: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(&leaf.config));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(socket).await?;
                    let mut plain = tokio::net::TcpStream::connect(("127.0.0.1", behind)).await?;
                    tokio::io::copy_bidirectional(&mut stream, &mut plain).await
                });
            }
        });
    });
    port
}

type Answer = Arc<dyn Fn(&str) -> (u16, String) + Send + Sync>;

pub(crate) struct TlsServer {
    pub(crate) url: String,
    heads: Receiver<String>,
}

impl TlsServer {
    pub(crate) fn new(
        authority: &Authority,
        answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let (sender, heads) = mpsc::channel();
        let (config, answer): (_, Answer) = (authority.config(), Arc::new(answer));
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (config, answer, sender) = (config.clone(), answer.clone(), sender.clone());
                // A client that disconnects, or does not trust the certificate, must not affect the next one.
                std::thread::spawn(move || serve(socket?, config, &answer, &sender));
            }
        });
        Self { url, heads }
    }

    /// The heads of the requests since the last call.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.heads.try_iter().collect()
    }

    /// The paths of the requests since the last call.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.requests().iter().map(|head| path(head).to_owned()).collect()
    }
}

fn serve(
    socket: TcpStream,
    config: Arc<ServerConfig>,
    answer: &Answer,
    heads: &Sender<String>,
) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, socket));
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let (code, body) = answer(path(&head));
        let _ = heads.send(head);
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {code} -\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.get_mut().write_all(text.as_bytes())?;
        stream.get_mut().flush()?;
    }
}

fn path(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}
