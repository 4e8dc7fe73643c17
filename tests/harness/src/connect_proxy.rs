//! A forward proxy that records the target and the credential of each connection. It speaks CONNECT, with or
//! without TLS, or SOCKS5, and nothing else.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, copy_bidirectional,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::bed::{bed, sidecar};
use crate::proxy_authority::ProxyAuthority;

/// The proxy, until this is dropped.
pub struct ConnectProxy {
    pub address: SocketAddr,
    kind: Kind,
    asked: watch::Receiver<Vec<Asked>>,
    _runtime: Runtime,
}

/// The protocol between a client and the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Http,
    /// With a certificate that the system of the bed's sidecar trusts.
    Https,
    Socks5,
}

#[derive(Clone, Debug)]
struct Asked {
    authority: String,
    /// `Proxy-Authorization` as it arrived, or the user and password of SOCKS5.
    credential: Option<String>,
    /// The header lines of a CONNECT as they arrived.
    head: String,
    /// The client certificate.
    certificate: Option<Vec<u8>>,
}

impl ConnectProxy {
    /// Starts it on the bed's own address, which both the sidecar and kubectl can reach.
    pub fn start() -> Result<Self> {
        Self::of(Kind::Http)
    }

    pub fn of(kind: Kind) -> Result<Self> {
        let name = bed()?.address.to_string();
        Self::with(kind, if kind == Kind::Https { Some(acceptor(&name)?) } else { None })
    }

    /// A proxy with TLS and a certificate of this authority. The clients must have one as well.
    pub fn demanding(authority: &ProxyAuthority) -> Result<Self> {
        Self::with(Kind::Https, Some(authority.acceptor(&bed()?.address.to_string())?))
    }

    fn with(kind: Kind, tls: Option<TlsAcceptor>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((bed()?.address, 0)))?;
        let address = listener.local_addr()?;
        let (sender, asked) = watch::channel(Vec::new());
        let sender = Arc::new(sender);
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (sender, tls) = (Arc::clone(&sender), tls.clone());
                tokio::spawn(async move {
                    match (kind, tls) {
                        (Kind::Socks5, _) => socks5(client, &sender).await,
                        (_, Some(tls)) => {
                            let client = tls.accept(client).await?;
                            let shown = client.get_ref().1.peer_certificates();
                            let shown = shown.and_then(|chain| chain.first()).map(|leaf| leaf.to_vec());
                            http(client, shown, &sender).await
                        }
                        (_, None) => http(client, None, &sender).await,
                    }
                });
            }
        });
        Ok(Self { address, kind, asked, _runtime: runtime })
    }

    /// Its URL, with this user info, if any.
    pub fn url(&self, user_info: &str) -> String {
        let scheme = match self.kind {
            Kind::Http => "http",
            Kind::Https => "https",
            Kind::Socks5 => "socks5",
        };
        let at = if user_info.is_empty() { "" } else { "@" };
        format!("{scheme}://{user_info}{at}{}", self.address)
    }

    /// The `host:port` of every connection so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.borrow().iter().map(|asked| asked.authority.clone()).collect()
    }

    /// The header lines that arrived with each of them.
    pub fn heads(&self) -> Vec<String> {
        self.asked.borrow().iter().map(|asked| asked.head.clone()).collect()
    }

    /// The client certificate that arrived with each of them.
    pub fn certificates(&self) -> Vec<Option<Vec<u8>>> {
        self.asked.borrow().iter().map(|asked| asked.certificate.clone()).collect()
    }

    /// The credential that arrived with each of them.
    pub fn credentials(&self) -> Vec<Option<String>> {
        self.asked.borrow().iter().map(|asked| asked.credential.clone()).collect()
    }
}

fn acceptor(name: &str) -> Result<TlsAcceptor> {
    let folder = tempfile::tempdir()?;
    sidecar()?.serving_files(&[name], folder.path(), "proxy")?;
    let certificate = CertificateDer::from_pem_file(folder.path().join("proxy.crt"))?;
    let key = PrivateKeyDer::from_pem_file(folder.path().join("proxy.key"))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn http(
    client: impl AsyncRead + AsyncWrite + Unpin,
    certificate: Option<Vec<u8>>,
    sender: &watch::Sender<Vec<Asked>>,
) -> Result<()> {
    let mut client = BufReader::new(client);
    let (mut line, mut head) = (String::new(), String::new());
    client.read_line(&mut line).await?;
    let authority = line
        .strip_prefix("CONNECT ")
        .and_then(|rest| rest.split(' ').next())
        .with_context(|| format!("no CONNECT: {line:?}"))?
        .to_owned();
    let mut credential = None;
    loop {
        line.clear();
        if client.read_line(&mut line).await? <= 2 {
            break;
        }
        head.push_str(&line);
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("proxy-authorization")
        {
            credential = Some(value.trim().to_owned());
        }
    }
    let upstream = TcpStream::connect(&authority).await?;
    sender.send_modify(|all| all.push(Asked { authority, credential, head, certificate }));
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    join(client, upstream).await
}

/// RFC 1928, and RFC 1929 for the credential.
async fn socks5(mut client: TcpStream, sender: &watch::Sender<Vec<Asked>>) -> Result<()> {
    ensure!(client.read_u8().await? == 5, "no SOCKS5");
    let methods = exactly(&mut client).await?;
    let mut credential = None;
    if methods.contains(&WITH_PASSWORD) {
        client.write_all(&[5, WITH_PASSWORD]).await?;
        ensure!(client.read_u8().await? == 1, "no such credential");
        let (user, password) = (exactly(&mut client).await?, exactly(&mut client).await?);
        credential = Some(format!("{}:{}", String::from_utf8(user)?, String::from_utf8(password)?));
        client.write_all(&[1, 0]).await?;
    } else {
        client.write_all(&[5, 0]).await?;
    }
    let mut request = [0; 4];
    client.read_exact(&mut request).await?;
    ensure!(request[..2] == [5, 1], "no CONNECT");
    let host = match request[3] {
        1 => Ipv4Addr::from_bits(client.read_u32().await?).to_string(),
        3 => String::from_utf8(exactly(&mut client).await?)?,
        4 => format!("[{}]", Ipv6Addr::from_bits(client.read_u128().await?)),
        other => bail!("no address: {other}"),
    };
    let authority = format!("{host}:{}", client.read_u16().await?);
    let upstream = TcpStream::connect(&authority).await?;
    sender
        .send_modify(|all| all.push(Asked { authority, credential, head: String::new(), certificate: None }));
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    join(client, upstream).await
}

/// Reads bytes that follow one byte with their number.
async fn exactly(client: &mut TcpStream) -> Result<Vec<u8>> {
    let mut bytes = vec![0; client.read_u8().await?.into()];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn join(mut client: impl AsyncRead + AsyncWrite + Unpin, mut upstream: TcpStream) -> Result<()> {
    copy_bidirectional(&mut client, &mut upstream).await?;
    Ok(())
}

const WITH_PASSWORD: u8 = 2;
