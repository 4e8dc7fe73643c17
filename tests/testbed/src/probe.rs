//! A minimal HTTP client that checks whether a server is ready.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};

/// Requests `http://address/path` or `https://address/path`. Any status other than 200 becomes an
/// error text.
pub(crate) struct Probe {
    address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
}

impl Probe {
    pub(crate) fn http(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }

    pub(crate) fn https(address: SocketAddr, ca_certificate: &Path) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(
            CertificateDer::from_pem_file(ca_certificate)
                .with_context(|| format!("no certificate: {}", ca_certificate.display()))?,
        )?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { address, tls: Some(Arc::new(config)) })
    }

    /// Whether the path answers with 200; otherwise returns the answer.
    pub(crate) fn ok(&self, path: &str) -> Result<(), String> {
        let answer = self.get(path).map_err(|error| format!("{error:#}"))?;
        if status(&answer) == Some(200) {
            return Ok(());
        }
        Err(answer.lines().next().unwrap_or("an empty answer").to_owned())
    }

    fn get(&self, path: &str) -> Result<String> {
        let stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let Some(tls) = &self.tls else {
            return exchange(stream, self.address, path);
        };
        let name = ServerName::IpAddress(self.address.ip().into());
        exchange(StreamOwned::new(ClientConnection::new(Arc::clone(tls), name)?, stream), self.address, path)
    }
}

fn exchange(mut stream: impl Read + Write, address: SocketAddr, path: &str) -> Result<String> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    stream.flush()?;
    let mut answer = Vec::new();
    // The head is enough: how the server closes afterwards does not matter.
    let mut chunk = [0; 4096];
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut chunk)? {
            0 => break,
            read => answer.extend_from_slice(&chunk[..read]),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn status(answer: &str) -> Option<u16> {
    answer.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// A running server answers its health path at once, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_an_answer_is_read() {
        assert_eq!(status("HTTP/1.1 200 OK\r\n\r\n"), Some(200));
        assert_eq!(status("HTTP/1.1 503 Service Unavailable\r\n"), Some(503));
        assert_eq!(status(""), None);
    }
}
