//! Opens watches without a proxy, to measure the cost that a proxy cannot avoid: a TLS session for
//! each watch, and hyper's HTTP/1.1 on top of it. It uses the same crates in the same versions as
//! the sidecar.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use harness::usage;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::role::{Holding, Layer, say};
use crate::site::CERTIFIED_NAME;

/// Prints the number of bytes that each watch took.
pub(crate) async fn hold(holding: &Holding) -> Result<()> {
    let Holding { address, ca, connections, by } = holding;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca)?)?;
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let open = async || {
        let socket = TcpStream::connect(address).await?;
        Ok::<_, anyhow::Error>(connector.connect(ServerName::try_from(CERTIFIED_NAME)?, socket).await?)
    };
    let (mut plain, mut spoken) = (Vec::with_capacity(*connections), Vec::with_capacity(*connections));
    let mut before = 0;
    // The first few also allocate what is shared by all.
    for number in 0..connections + WARM_UP {
        if number == WARM_UP {
            before = usage::resident(std::process::id())?;
        }
        match by {
            Layer::Tls => plain.push(alone(open().await?).await?),
            Layer::Http => spoken.push(with_hyper(open().await?).await?),
        }
    }
    let taken = usage::resident(std::process::id())? - before;
    say(&format!("{:.0}", taken as f64 / *connections as f64))
}

async fn alone(mut stream: TlsStream<TcpStream>) -> Result<TlsStream<TcpStream>> {
    stream.write_all(format!("GET {WATCH} HTTP/1.1\r\nHost: member\r\n\r\n").as_bytes()).await?;
    stream.flush().await?;
    let mut read = [0; 4096];
    let mut length = 0;
    while !read[..length].ends_with(b"}\n\r\n") {
        let more = stream.read(&mut read[length..]).await?;
        ensure!(more > 0, "no watch: {:?}", String::from_utf8_lossy(&read[..length]));
        length += more;
    }
    Ok(stream)
}

async fn with_hyper(stream: TlsStream<TcpStream>) -> Result<impl Sized> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(WATCH).header(header::HOST, "member").body(Empty::<Bytes>::new())?;
    // The head is dropped, as in a proxy: its headers would keep the buffer into which they were read.
    let mut body = sender.send_request(request).await?.into_body();
    body.frame().await.context("no event")??;
    Ok((sender, body))
}

const WATCH: &str = "/api/v1/configmaps?watch=1";
const WARM_UP: usize = 100;
