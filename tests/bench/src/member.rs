//! A member with endless answers: watches with one event, tunnels, and an answer of one byte a second. It is
//! as light as possible, since it runs on the machine that is measured.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::server::TlsStream;

use crate::pods;
use crate::role::{Serving, say};

/// Serves until it is killed.
pub(crate) async fn serve(serving: &Serving) -> Result<()> {
    let Serving { address, certificate, key } = serving;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?,
            PrivateKeyDer::from_pem_file(key)?,
        )?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind(*address)?;
    let listener: TcpListener = socket.listen(BACKLOG)?;
    say(&listener.local_addr()?.to_string())?;
    loop {
        let (socket, _) = listener.accept().await?;
        let acceptor = acceptor.clone();
        tokio::spawn(async move { converse(acceptor.accept(socket).await?).await });
    }
}

/// One connection, request after request.
async fn converse(mut stream: TlsStream<TcpStream>) -> Result<()> {
    loop {
        let head = head(&mut stream).await?;
        let target = head.split(' ').nth(1).unwrap_or_default();
        if head.to_ascii_lowercase().contains("\r\nupgrade: websocket") {
            stream.write_all(SWITCHED).await?;
            return match (mebibytes(target, SENDS), mebibytes(target, RECEIVES)) {
                (Some(count), _) => send(stream, count).await,
                (_, Some(count)) => receive(stream, count).await,
                _ => tunnel(stream).await,
            };
        } else if target.contains("watch=") {
            stream.write_all(WATCHED.as_bytes()).await?;
            stream.write_all(format!("{:x}\r\n{EVENT}\r\n", EVENT.len()).as_bytes()).await?;
            stream.flush().await?;
            stream.read_u8().await?;
            return Err(anyhow!("a watch says no more"));
        } else if target.contains(SLOW) {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3600\r\n\r\n").await?;
            for _ in 0..3600 {
                stream.write_all(b"x").await?;
                stream.flush().await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        } else if target.contains(pods::ROOT) {
            let accept = head.lines().find(|line| line.to_ascii_lowercase().starts_with("accept:"));
            let (kind, body) = pods::answer(target, accept.unwrap_or_default());
            let length = body.len();
            let answer =
                format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await?;
            stream.flush().await?;
        } else {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await?;
            stream.flush().await?;
        }
    }
}

async fn head(stream: &mut TlsStream<TcpStream>) -> Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Err(anyhow!("the end"));
        }
    }
    Ok(String::from_utf8(head)?)
}

/// The number that follows this part of a path.
fn mebibytes(target: &str, part: &str) -> Option<usize> {
    target.split_once(part)?.1.parse().ok()
}

async fn send(mut stream: TlsStream<TcpStream>, mebibytes: usize) -> Result<()> {
    let block = vec![0; BLOCK];
    for _ in 0..mebibytes * MEBIBYTE / BLOCK {
        stream.write_all(&block).await?;
    }
    stream.flush().await?;
    // Waits until the other side has all of it and closes.
    stream.read_u8().await.map(drop).or(Ok(()))
}

/// Confirms with one byte when all of it has arrived.
async fn receive(mut stream: TlsStream<TcpStream>, mebibytes: usize) -> Result<()> {
    let (mut block, mut left) = (vec![0; BLOCK], mebibytes * MEBIBYTE);
    while left > 0 {
        match stream.read(&mut block).await? {
            0 => return Err(anyhow!("the end")),
            length => left = left.saturating_sub(length),
        }
    }
    stream.write_all(b".").await?;
    stream.flush().await?;
    stream.read_u8().await.map(drop).or(Ok(()))
}

/// Sends a prompt, and a screenful for each typed byte.
async fn tunnel(mut stream: TlsStream<TcpStream>) -> Result<()> {
    stream.write_all(PROMPT).await?;
    stream.flush().await?;
    loop {
        stream.read_u8().await?;
        stream.write_all(&[b'x'; SCREENFUL]).await?;
        stream.flush().await?;
    }
}

/// Part of the path of an upgraded connection on which the member sends this many MiB.
pub(crate) const SENDS: &str = "&sends=";
/// The same for a member that receives.
pub(crate) const RECEIVES: &str = "&receives=";
pub(crate) const MEBIBYTE: usize = 1024 * 1024;
const BLOCK: usize = 64 * 1024;

/// Part of a path whose answer arrives at one byte a second.
const SLOW: &str = "/slow";
/// The first bytes of a tunnel.
pub(crate) const PROMPT: &[u8] = b"# ";
/// More than any buffer in between holds.
pub(crate) const SCREENFUL: usize = 64 * 1024;

const BACKLOG: u32 = 4096;
const SWITCHED: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const WATCHED: &str = "HTTP/1.1 200 OK\r\n\
    Audit-Id: 2a1f0e9c-7f0b-4d4e-9a43-2f5f0c8f6a11\r\n\
    Cache-Control: no-cache, private\r\n\
    Content-Type: application/json\r\n\
    X-Kubernetes-Pf-Flowschema-Uid: 6a4f9b0e-93a3-4a27-8f07-0f6a3a3f2b1c\r\n\
    X-Kubernetes-Pf-Prioritylevel-Uid: 0c8f6a11-4d4e-7f0b-9a43-2f5f2a1f0e9c\r\n\
    Date: Sat, 21 Nov 2026 12:00:00 GMT\r\n\
    Transfer-Encoding: chunked\r\n\r\n";
const EVENT: &str = concat!(
    r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"small","#,
    r#""namespace":"default","uid":"6a4f9b0e-93a3-4a27-8f07-0f6a3a3f2b1c","resourceVersion":"1234","#,
    r#""creationTimestamp":"2026-11-21T12:00:00Z"},"data":{"colour":"green","shape":"round"}}}"#,
    "\n"
);
