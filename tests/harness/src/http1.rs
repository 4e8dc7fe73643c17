//! A client for HTTP/1.1 over TLS that sends the caller's bytes exactly as written, and returns the answer
//! byte for byte. It uses no HTTP library, because a library would refuse or repair the requests of the
//! attacks.

mod dial;

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use testbed::{ClientCertificate, Cluster, Sidecar};

use dial::Dial;

/// A TLS server, with the client's certificate if any.
#[derive(Clone)]
pub struct Endpoint {
    address: SocketAddr,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    dial: Dial,
}

impl Endpoint {
    /// A cluster's kube-apiserver.
    pub fn cluster(cluster: &Cluster, certificate: Option<&ClientCertificate>) -> Result<Self> {
        let address = authority(&cluster.server)?;
        let name = ServerName::from(address.ip());
        Self::new(address, name, &std::fs::read(&cluster.ca_certificate)?, certificate)
    }

    /// The sidecar's own port, past the host's kube-apiserver.
    pub fn sidecar(sidecar: &Sidecar, certificate: Option<&ClientCertificate>) -> Result<Self> {
        let name = ServerName::try_from(SIDECAR_NAME)?;
        Self::new(authority(&sidecar.url)?, name, &std::fs::read(&sidecar.ca_certificate)?, certificate)
    }

    /// A sidecar in a pod. Its certificate for the Service is from this authority.
    pub fn pod(address: SocketAddr, namespace: &str, ca: &[u8]) -> Result<Self> {
        Self::new(address, ServerName::try_from(format!("mc-sidecar.{namespace}.svc"))?, ca, None)
    }

    fn new(
        address: SocketAddr,
        name: ServerName<'static>,
        ca: &[u8],
        certificate: Option<&ClientCertificate>,
    ) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(ca) {
            roots.add(root.context("a CA is not PEM")?)?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let config = match certificate {
            None => builder.with_no_client_auth(),
            Some(ClientCertificate { certificate, key }) => builder.with_client_auth_cert(
                CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>()?,
                PrivateKeyDer::from_pem_slice(key.as_bytes())?,
            )?,
        };
        Ok(Self { address, name, config: Arc::new(config), dial: Dial::default() })
    }

    /// What a client of another kind needs to connect.
    pub(crate) fn parts(&self) -> (SocketAddr, ServerName<'static>, Arc<ClientConfig>) {
        (self.address, self.name.clone(), Arc::clone(&self.config))
    }

    /// The same server, with these protocols offered in the handshake (ALPN).
    #[must_use]
    pub fn offering(mut self, protocols: &[&str]) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        self.config = Arc::new(config);
        self
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same server, found at another address.
    #[must_use]
    pub fn at(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// The same server under another name, which its certificate need not contain.
    pub fn named(mut self, name: &str) -> Result<Self> {
        self.name = ServerName::try_from(name.to_owned())?;
        Ok(self)
    }

    /// The same server, dialed from this address of the machine.
    #[must_use]
    pub fn from_address(mut self, source: impl Into<IpAddr>) -> Self {
        self.dial.source = Some(source.into());
        self
    }

    /// The same server, whose answers fill the socket after about this many bytes.
    #[must_use]
    pub fn with_receive_buffer(mut self, bytes: usize) -> Self {
        self.dial.receive_buffer = Some(bytes);
        self
    }

    /// Opens a TCP connection to it on which nothing has been sent yet.
    pub fn dial(&self) -> Result<TcpStream> {
        let socket = self.dial.connect(self.address, PATIENCE)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.set_nodelay(true)?;
        Ok(socket)
    }

    pub fn connect(&self) -> Result<Connection> {
        let socket = self.dial()?;
        let tls = ClientConnection::new(Arc::clone(&self.config), self.name.clone())?;
        Ok(Connection { stream: StreamOwned::new(tls, socket), early: Vec::new() })
    }

    /// Sends one request on a new connection and reads the whole answer.
    pub fn exchange(&self, request: &[u8]) -> Result<Response> {
        let mut connection = self.connect()?;
        connection.send(request)?;
        connection.response()
    }
}

/// The first certificate of a PEM file, as a server presents it.
pub fn first_certificate(pem: &[u8]) -> Result<Vec<u8>> {
    Ok(CertificateDer::from_pem_slice(pem)?.to_vec())
}

/// The answer of a plain HTTP server, such as `http://ip:port`, to a GET.
pub fn plain_get(server: &str, path: &str) -> Result<Response> {
    let address = authority(server)?;
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").context("no head")? + 4;
    let body = answer.split_off(end);
    Ok(Response { head: Head::parse(&answer)?, body })
}

/// One connection. Bytes that were read too early are kept for the next read.
pub struct Connection {
    stream: StreamOwned<ClientConnection, TcpStream>,
    early: Vec<u8>,
}

impl Connection {
    /// Sets the timeout of a read, which is [`PATIENCE`] by default.
    pub fn set_patience(&self, patience: Duration) -> Result<()> {
        Ok(self.stream.sock.set_read_timeout(Some(patience))?)
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes)?;
        Ok(self.stream.flush()?)
    }

    /// Sends this repeatedly until the other side has accepted nothing for a while, or `most` bytes
    /// are sent. Returns the number of bytes that were sent.
    pub fn send_until_held_back(&mut self, piece: &[u8], most: usize, pause: Duration) -> Result<usize> {
        let StreamOwned { conn, sock } = &mut self.stream;
        sock.set_write_timeout(Some(pause))?;
        let mut sent = 0;
        while sent < most {
            sent += conn.writer().write(piece)?;
            while conn.wants_write() {
                match conn.write_tls(sock) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(sent),
                    written => written?,
                };
            }
        }
        Ok(sent)
    }

    /// Sends a TLS close_notify; answers can still be read.
    pub fn finish(&mut self) -> Result<()> {
        self.stream.conn.send_close_notify();
        Ok(self.stream.flush()?)
    }

    /// The head of the answer; its body stays on the connection.
    pub fn head(&mut self) -> Result<Head> {
        let mut read = std::mem::take(&mut self.early);
        let end = loop {
            if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.more(&mut read)? {
                bail!("closed inside the head: {:?}", String::from_utf8_lossy(&read));
            }
        };
        self.early = read.split_off(end);
        Head::parse(&read)
    }

    /// The whole answer: the head and the body it announces.
    pub fn response(&mut self) -> Result<Response> {
        let head = self.head()?;
        let body = if head.status == 101 || head.status == 204 || head.status == 304 {
            Vec::new()
        } else if head.value("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
            self.chunked()?
        } else if let Some(length) = head.value("content-length") {
            self.exactly(length.parse()?)?
        } else {
            self.rest()?
        };
        Ok(Response { head, body })
    }

    /// Reads exactly this many bytes.
    pub fn exactly(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut read = std::mem::take(&mut self.early);
        while read.len() < length {
            if !self.more(&mut read)? {
                bail!("closed after {} of {length} bytes", read.len());
            }
        }
        self.early = read.split_off(length);
        Ok(read)
    }

    /// The same, or nothing if the other side closes first.
    pub fn exactly_or_end(&mut self, length: usize) -> Result<Option<Vec<u8>>> {
        let mut read = std::mem::take(&mut self.early);
        while read.len() < length {
            if !self.more(&mut read)? {
                return Ok(None);
            }
        }
        self.early = read.split_off(length);
        Ok(Some(read))
    }

    /// The server's certificate, once something has been read.
    pub fn certificate(&self) -> Option<Vec<u8>> {
        self.stream.conn.peer_certificates()?.first().map(|certificate| certificate.to_vec())
    }

    /// The underlying socket.
    pub fn socket(&self) -> &TcpStream {
        &self.stream.sock
    }

    /// Everything until the other side closes.
    pub fn rest(&mut self) -> Result<Vec<u8>> {
        let mut read = std::mem::take(&mut self.early);
        while self.more(&mut read)? {}
        Ok(read)
    }

    /// One chunk of a chunked body; empty at its end.
    pub fn chunk(&mut self) -> Result<Vec<u8>> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(self.exactly(1)?);
        }
        let size = std::str::from_utf8(&line)?.trim().split(';').next().unwrap_or_default().to_owned();
        let size = usize::from_str_radix(&size, 16).with_context(|| format!("no chunk size: {size:?}"))?;
        let mut chunk = self.exactly(size + 2)?;
        chunk.truncate(size);
        Ok(chunk)
    }

    fn chunked(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let chunk = self.chunk()?;
            if chunk.is_empty() {
                return Ok(body);
            }
            body.extend(chunk);
        }
    }

    /// Reads what is there. Returns false if the other side closed, even without a close_notify.
    fn more(&mut self, into: &mut Vec<u8>) -> Result<bool> {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(length) => {
                into.extend_from_slice(&buffer[..length]);
                Ok(true)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                ) =>
            {
                Ok(false)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => bail!("no answer in time"),
            Err(error) => Err(error.into()),
        }
    }
}

/// The head of an answer: its status and its header lines in order.
#[derive(Debug, Clone)]
pub struct Head {
    pub status: u16,
    pub lines: Vec<(String, String)>,
}

impl Head {
    fn parse(bytes: &[u8]) -> Result<Self> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let status = status.with_context(|| format!("no status line: {text:?}"))?;
        let lines = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Ok(Self { status, lines })
    }

    /// The first value of a header. The name must be in lower case.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.lines.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Response {
    pub head: Head,
    pub body: Vec<u8>,
}

impl Response {
    pub fn status(&self) -> u16 {
        self.head.status
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The name of the sidecar's Service on the host, which is in its certificate.
pub const SIDECAR_NAME: &str = "mc-sidecar.kubectl-mc-system.svc";

/// The address of a URL `<scheme>://ip:port`.
fn authority(url: &str) -> Result<SocketAddr> {
    let authority = url.rsplit("//").next().unwrap_or_default();
    authority.parse().with_context(|| format!("no ip:port in {url:?}"))
}

/// A path of a member, below the host's root.
pub fn member_path(cluster: &str, rest: &str) -> String {
    format!("/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/{cluster}/proxy{rest}")
}

/// How long an answer may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_keeps_every_line_in_its_order() {
        let head = Head::parse(b"HTTP/1.1 403 Forbidden\r\nA: 1\r\nB: x\r\na:2\r\n\r\n").unwrap();
        assert_eq!(head.status, 403);
        assert_eq!(head.value("a"), Some("1"));
        assert_eq!(head.lines[2], ("a".to_owned(), "2".to_owned()));
    }

    #[test]
    fn text_that_is_not_http_is_an_error() {
        assert!(Head::parse(b"hello\r\n\r\n").is_err());
    }

    #[test]
    fn address_is_read_from_the_url() {
        assert_eq!(authority("https://10.88.0.5:10250").unwrap(), "10.88.0.5:10250".parse().unwrap());
        assert!(authority("https://name:443").is_err());
    }
}
