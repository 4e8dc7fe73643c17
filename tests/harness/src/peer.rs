//! Sends a question to a replica of the sidecar, as another replica does
//! (`sidecar/src/outbound/tunnel/peers/question.rs`).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use crate::http1::SIDECAR_NAME;

/// The first line of the answer; none if the replica closes the connection first. `certificate` is
/// the path of the `.crt` and `.key` files without the extension.
pub fn ask(
    address: SocketAddr,
    ca: &Path,
    certificate: Option<&Path>,
    question: &str,
) -> Result<Option<String>> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(ca)? {
        roots.add(root?)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match certificate {
        None => builder.with_no_client_auth(),
        Some(stem) => {
            let chain = CertificateDer::pem_file_iter(stem.with_extension("crt"))?;
            let key = PrivateKeyDer::from_pem_file(stem.with_extension("key"))?;
            builder.with_client_auth_cert(chain.collect::<Result<_, _>>()?, key)?
        }
    };
    config.alpn_protocols = vec![b"kubectl-mc-peer/1".to_vec()];
    let tcp = TcpStream::connect(address).context("the replica takes no connection")?;
    tcp.set_read_timeout(Some(PATIENCE))?;
    let session = ClientConnection::new(Arc::new(config), ServerName::try_from(SIDECAR_NAME)?)?;
    let mut stream = StreamOwned::new(session, tcp);
    // A client's handshake ends before the server has checked the certificate.
    if stream.write_all(question.as_bytes()).is_err() {
        return Ok(None);
    }
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match stream.read(&mut byte) {
            Ok(1) if byte != *b"\n" => line.extend(byte),
            Ok(1) => return Ok(Some(String::from_utf8(line)?)),
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Err(error).context("the replica neither answers nor closes the connection");
            }
            Err(_) => return Ok(None),
        }
    }
}

/// Longer than any timeout of a replica.
const PATIENCE: Duration = Duration::from_secs(15);
