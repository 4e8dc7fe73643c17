//! Connections to a member: TCP, or a tunnel through its `proxy-url`, then TLS. Plain requests and
//! upgrades take the same way.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use base64::Engine;
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use tower_service::Service;

use super::breaker::Breaker;
use super::connection::{self, Connection};
use super::stream::{BeforeHead, MemberStream};
use super::{innermost, is_timeout};

pub(super) mod lookup;

use lookup::Lookup;

/// Opens connections to one member.
#[derive(Clone, Debug)]
pub struct Connector(Arc<Way>);

#[derive(Debug)]
struct Way {
    address: Uri,
    server_name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    hop: Hop,
    breaker: Arc<Breaker>,
}

/// What lies between here and the member.
#[derive(Clone, Debug)]
enum Hop {
    Direct(Tcp),
    Http(Tunnel<Tcp>),
    Https(Tunnel<TlsToProxy>),
    Socks5(SocksV5<Tcp>),
}

type Tcp = HttpConnector<Lookup>;
/// The transport under the member's TLS.
pub(super) type Transport = Either<TcpStream, Box<TlsStream<TcpStream>>>;
pub(super) type BoxError = Box<dyn StdError + Send + Sync>;
type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

impl Connector {
    /// What becomes of each attempt is told to the breaker.
    pub(super) fn new(connection: &Connection, breaker: Arc<Breaker>) -> Result<Self, connection::Error> {
        let address = connection.address().map_err(|_| connection::Error::unusable_server())?;
        let hop = Hop::new(connection.proxy.as_ref())?;
        let (server_name, tls) = (connection.server_name.clone(), connection.tls.clone());
        Ok(Self(Arc::new(Way { address, server_name, tls, hop, breaker })))
    }

    /// Opens a connection.
    pub(super) async fn connect(&self) -> Result<TokioIo<MemberStream>, BoxError> {
        let way = &self.0;
        let opening = Opening { breaker: &way.breaker, began: Instant::now(), over: false };
        let opened = match timeout(CONNECT_TIMEOUT, way.open()).await {
            Ok(Err(error)) if is_timeout(error.as_ref()) => Err(Silent.into()),
            Ok(opened) => opened,
            Err(_) => Err(Silent.into()),
        };
        opening.ended(&opened);
        opened
    }
}

impl Way {
    async fn open(&self) -> Result<TokioIo<MemberStream>, BoxError> {
        let transport = self.hop.clone().open(self.address.clone()).await?;
        let stream =
            TlsConnector::from(self.tls.clone()).connect(self.server_name.clone(), transport).await?;
        Ok(TokioIo::new(MemberStream::new(stream, BeforeHead::default())))
    }
}

/// A connection that is being opened. A caller who does not wait for the end, but long enough, has
/// seen that the member is silent.
struct Opening<'a> {
    breaker: &'a Breaker,
    began: Instant,
    over: bool,
}

impl Opening<'_> {
    fn ended<T>(mut self, opened: &Result<T, BoxError>) {
        self.over = true;
        match opened {
            Ok(_) => self.breaker.connected(),
            Err(error) => self.breaker.failed(self.began.elapsed(), innermost(error.as_ref())),
        }
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if !self.over && self.began.elapsed() >= LONG_ENOUGH {
            self.breaker.failed(self.began.elapsed(), Silent);
        }
    }
}

impl Hop {
    fn new(proxy: Option<&Uri>) -> Result<Self, connection::Error> {
        let tcp = tcp();
        let Some(proxy) = proxy else { return Ok(Self::Direct(tcp)) };
        let credentials = credentials(proxy);
        let address = without_credentials(proxy)?;
        Ok(match proxy.scheme_str() {
            Some("socks5" | "socks5h") => {
                let socks = SocksV5::new(address, tcp);
                Self::Socks5(match credentials {
                    Some((user, password)) => socks.with_auth(user, password),
                    None => socks,
                })
            }
            Some("https") => {
                let tls = TlsToProxy::new(&address, tcp)?;
                Self::Https(authorized(Tunnel::new(address, tls), credentials))
            }
            _ => Self::Http(authorized(Tunnel::new(address, tcp), credentials)),
        })
    }

    async fn open(self, address: Uri) -> Result<Transport, BoxError> {
        let plain = |io: TokioIo<TcpStream>| Either::Left(io.into_inner());
        Ok(match self {
            Self::Direct(mut tcp) => plain(tcp.call(address).await?),
            Self::Http(mut tunnel) => plain(tunnel.call(address).await?),
            Self::Socks5(mut socks) => plain(socks.call(address).await?),
            Self::Https(mut tunnel) => Either::Right(Box::new(tunnel.call(address).await?.into_inner())),
        })
    }
}

fn authorized<C>(tunnel: Tunnel<C>, credentials: Option<(String, String)>) -> Tunnel<C> {
    let Some((user, password)) = credentials else { return tunnel };
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    match HeaderValue::try_from(format!("Basic {encoded}")) {
        Ok(value) => tunnel.with_auth(value),
        Err(_) => tunnel,
    }
}

fn tcp() -> Tcp {
    let mut tcp = HttpConnector::new_with_resolver(Lookup::default());
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(3));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(USER_TIMEOUT));
    tcp
}

/// User and password of a proxy's URL, percent-decoded.
fn credentials(proxy: &Uri) -> Option<(String, String)> {
    let (info, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    let (user, password) = info.split_once(':').unwrap_or((info, ""));
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((decoded(user), decoded(password)))
}

/// The proxy's address, with the port that its scheme means: the connector knows only http's and https'.
fn without_credentials(proxy: &Uri) -> Result<Uri, connection::Error> {
    let unusable = || connection::Error::unusable_proxy();
    let host = proxy.host().ok_or_else(unusable)?;
    let (scheme, port) = match proxy.scheme_str() {
        Some("https") => ("https", 443),
        Some("socks5" | "socks5h") => ("socks5", 1080),
        _ => ("http", 80),
    };
    let port = proxy.port_u16().unwrap_or(port);
    format!("{scheme}://{host}:{port}/").parse().map_err(|_| unusable())
}

/// TLS to a proxy whose URL begins with https, verified by the system's roots.
#[derive(Clone, Debug)]
struct TlsToProxy {
    tcp: Tcp,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
}

impl TlsToProxy {
    fn new(proxy: &Uri, tcp: Tcp) -> Result<Self, connection::Error> {
        let host = proxy.host().unwrap_or_default().trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned()).map_err(|_| connection::Error::unusable_proxy())?;
        Ok(Self { tcp, name, tls: Arc::new(connection::verified_by_the_system()?) })
    }
}

impl Service<Uri> for TlsToProxy {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = BoxError;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, proxy: Uri) -> Self::Future {
        let Self { mut tcp, name, tls } = self.clone();
        Box::pin(async move {
            let stream = tcp.call(proxy).await?.into_inner();
            Ok(TokioIo::new(TlsConnector::from(tls).connect(name, stream).await?))
        })
    }
}

/// Accepts any certificate, as `insecure-skip-tls-verify` asks; the handshake's signature still counts.
#[derive(Debug)]
pub(super) struct Unverified(Arc<CryptoProvider>);

impl Default for Unverified {
    fn default() -> Self {
        Self(Arc::new(crypto::aws_lc_rs::default_provider()))
    }
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Name, TCP, proxy and TLS together (client-go: 30 s for TCP, 10 s for TLS).
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Of the connect timeout; a handshake over a bad line takes a second or two.
const LONG_ENOUGH: Duration = Duration::from_secs(3);
/// A connection whose other end is gone is noticed after this time of silence, a probe and the next …
const KEEPALIVE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// … and this long after something was sent, or probed, that nobody acknowledged.
pub(super) const USER_TIMEOUT: Duration = Duration::from_secs(15);

/// A member that lets nothing hear of itself.
#[derive(Debug, thiserror::Error)]
#[error("it did not answer in time")]
pub(super) struct Silent;

#[cfg(test)]
mod tests {
    use socket2::SockRef;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_notices_that_its_other_end_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let Either::Left(stream) = Hop::new(None).unwrap().open(address).await.unwrap() else {
            panic!("TLS to a proxy that is not there")
        };
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), KEEPALIVE_INTERVAL);
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(USER_TIMEOUT));
    }
}
