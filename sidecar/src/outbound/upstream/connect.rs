//! Opens connections to a member: TCP, then a tunnel through its `proxy-url` or its agent if configured, then
//! TLS. Plain requests and upgrades use the same route.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use base64::Engine;
use http::uri::Authority;
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::SocksV5;
use hyper_util::rt::TokioIo;
use kubectl_mc_api::ClusterName;
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use tower_service::Service;

use super::breaker::Breaker;
use super::connection::{self, Connection, Proxy};
use super::stream::{BeforeHead, MemberStream, Transport};
use super::timeouts::{CONNECT_TIMEOUT, is_timeout};
use crate::base::causes::innermost;
use crate::base::tcp;
use crate::outbound::tunnel::purpose::Purpose;
use crate::outbound::tunnel::registry::{AgentTunnel, AgentTunnels, DialError, Opened};
use crate::outbound::tunnel::stream::directions::Directions;

pub(super) mod at_proxy;
pub(super) mod lookup;
mod tunnel;
pub(super) mod unverified;

use at_proxy::AtProxy;
use lookup::{BoxError, Lookup};
use tunnel::Tunnel;

/// Opens connections to one member.
#[derive(Clone, Debug)]
pub struct Connector(Arc<Endpoint>);

#[derive(Debug)]
struct Endpoint {
    address: Uri,
    server_name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    route: Route,
    /// The proxy's URL without its credential, if there is a proxy.
    proxy: Option<Uri>,
    breaker: Arc<Breaker>,
}

/// The route to the member.
#[derive(Clone, Debug)]
enum Route {
    Direct(Tcp),
    Http(Tunnel<Tcp>),
    Https(Tunnel<TlsToProxy>),
    Socks5(SocksV5<Tcp>),
    Agent(ThroughAgent),
}

/// The tunnels of a member's agent, and the address that the agent connects to.
#[derive(Clone, Debug)]
struct ThroughAgent {
    tunnels: Arc<AgentTunnels>,
    cluster: ClusterName,
    target: Authority,
}

type Tcp = HttpConnector<Lookup>;
type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

impl Connector {
    /// Whether an agent carries the connections, through a tunnel at this replica or at another one.
    pub(super) fn is_by_agent(&self) -> bool {
        matches!(self.0.route, Route::Agent(_))
    }

    /// The breaker learns the result of each attempt.
    pub(super) fn new(
        cluster: &ClusterName,
        connection: &Connection,
        breaker: Arc<Breaker>,
        tunnels: &Arc<AgentTunnels>,
    ) -> Result<Self, connection::Error> {
        let address = connection.address().map_err(|_| connection::Error::unusable_server())?;
        let proxy = connection.proxy.as_ref().map(|proxy| without_credentials(&proxy.url)).transpose()?;
        let route = if connection.is_via_agent {
            let target = connection.host_and_port().map_err(|_| connection::Error::unusable_server())?;
            Route::Agent(ThroughAgent { tunnels: tunnels.clone(), cluster: cluster.clone(), target })
        } else {
            Route::new(connection.proxy.as_ref())?
        };
        let (server_name, tls) = (connection.server_name.clone(), connection.tls.clone());
        Ok(Self(Arc::new(Endpoint { address, server_name, tls, route, proxy, breaker })))
    }

    /// Opens a connection.
    pub(super) async fn connect(&self, purpose: Purpose) -> Result<TokioIo<MemberStream>, BoxError> {
        let endpoint = &self.0;
        let opening = Opening { breaker: &endpoint.breaker, began: Instant::now(), over: false };
        let opened = match timeout(CONNECT_TIMEOUT, endpoint.open(purpose)).await {
            Ok(Err(error)) if is_timeout(error.as_ref()) => Err(Silent.into()),
            Ok(opened) => opened,
            Err(_) => Err(Silent.into()),
        };
        opening.ended(&opened);
        opened
    }
}

impl Endpoint {
    async fn open(&self, purpose: Purpose) -> Result<TokioIo<MemberStream>, BoxError> {
        let transport = self.route.clone().open(self.address.clone(), purpose).await;
        let transport = transport.map_err(|error| AtProxy::name(self.proxy.as_ref(), error))?;
        let tunnel = agent_tunnel(&transport);
        let stream =
            secured(transport, &self.server_name, &self.tls).await.map_err(|error| match tunnel {
                Some(tunnel) if tunnel.has_ended() => DialError::Ended.into(),
                _ => error,
            })?;
        Ok(TokioIo::new(MemberStream::new(stream, BeforeHead::default())))
    }
}

/// The tunnel that carries a connection, if it ends at this replica.
pub(super) fn agent_tunnel(transport: &Transport) -> Option<Arc<AgentTunnel>> {
    match transport {
        Either::Right(Either::Right(stream)) => stream.tunnel().cloned(),
        _ => None,
    }
}

/// The stream of an agent's tunnel that carries a connection, if the tunnel ends at this replica.
pub(super) fn agent_stream(transport: &Transport) -> Option<Arc<Directions>> {
    match transport {
        Either::Right(Either::Right(stream)) => Some(stream.directions().clone()),
        _ => None,
    }
}

/// The connection's own TCP socket, if it has one that the sidecar opened to the member or its proxy.
pub(super) fn socket(transport: &Transport) -> Option<socket2::Socket> {
    let tcp = match transport {
        Either::Left(tcp) => tcp,
        Either::Right(Either::Left(tls)) => tls.get_ref().0,
        Either::Right(Either::Right(_)) => return None,
    };
    SockRef::from(tcp).try_clone().ok()
}

/// Opens a single connection without a breaker, from an agent to the host.
pub(crate) async fn open(connection: &Connection) -> Result<TokioIo<MemberStream>, BoxError> {
    let route = Route::new(connection.proxy.as_ref())?;
    let proxy = connection.proxy.as_ref().map(|proxy| without_credentials(&proxy.url)).transpose()?;
    let opening = async {
        let transport = route.open(connection.address()?, Purpose::Any).await;
        let transport = transport.map_err(|error| AtProxy::name(proxy.as_ref(), error))?;
        secured(transport, &connection.server_name, &connection.tls).await
    };
    match timeout(CONNECT_TIMEOUT, opening).await {
        Ok(opened) => Ok(TokioIo::new(MemberStream::new(opened?, BeforeHead::default()))),
        Err(_) => Err(Silent.into()),
    }
}

async fn secured(
    transport: Transport,
    server_name: &ServerName<'static>,
    tls: &Arc<ClientConfig>,
) -> Result<TlsStream<Transport>, BoxError> {
    Ok(TlsConnector::from(tls.clone()).connect(server_name.clone(), transport).await?)
}

/// A connection attempt. If its caller leaves after at least [`LONG_ENOUGH`], the member counts as silent.
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
            Err(error) if says_nothing_about_the_member(error.as_ref()) => self.breaker.undecided(),
            Err(error) => self.breaker.failed(self.began.elapsed(), innermost(error.as_ref())),
        }
    }
}

/// Whether the agent's tunnel is missing or broke, or the lookup of the name did not start.
fn says_nothing_about_the_member(error: &(dyn StdError + 'static)) -> bool {
    let at_proxy = error.downcast_ref().map(AtProxy::cause);
    error.downcast_ref().is_some_and(|error: &DialError| !error.is_of_the_member())
        || lookup::Error::is_crowded(at_proxy.unwrap_or(error))
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if !self.over && self.began.elapsed() >= LONG_ENOUGH {
            self.breaker.failed(self.began.elapsed(), Silent);
        }
    }
}

impl Route {
    fn new(proxy: Option<&Proxy>) -> Result<Self, connection::Error> {
        let tcp = tcp();
        let Some(Proxy { url, tls }) = proxy else { return Ok(Self::Direct(tcp)) };
        let credentials = credentials(url);
        let address = without_credentials(url)?;
        Ok(match (url.scheme_str(), tls) {
            (Some("socks5" | "socks5h"), _) => {
                let socks = SocksV5::new(address, tcp);
                Self::Socks5(match credentials {
                    Some((user, password)) => socks.with_auth(user, password),
                    None => socks,
                })
            }
            (_, Some(tls)) => {
                let tls = TlsToProxy::new(&address, tcp, tls.clone())?;
                Self::Https(authorized(Tunnel::new(address, tls), credentials))
            }
            _ => Self::Http(authorized(Tunnel::new(address, tcp), credentials)),
        })
    }

    async fn open(self, address: Uri, purpose: Purpose) -> Result<Transport, BoxError> {
        let plain = |io: TokioIo<TcpStream>| Either::Left(io.into_inner());
        Ok(match self {
            Self::Direct(mut tcp) => plain(tcp.call(address).await?),
            Self::Http(mut tunnel) => plain(tunnel.call(address).await?),
            Self::Socks5(mut socks) => plain(socks.call(address).await?),
            Self::Https(mut tunnel) => {
                Either::Right(Either::Left(Box::new(tunnel.call(address).await?.into_inner())))
            }
            Self::Agent(ThroughAgent { tunnels, cluster, target }) => {
                Either::Right(match tunnels.open(&cluster, &target, purpose).await? {
                    Opened::Here(stream) => Either::Right(Box::new(stream)),
                    Opened::AtPeer(stream) => Either::Left(stream),
                })
            }
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
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp::prepare_all(&mut tcp);
    tcp
}

/// The user and the password in a proxy's URL, percent-decoded.
fn credentials(proxy: &Uri) -> Option<(String, String)> {
    let (info, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    let (user, password) = info.split_once(':').unwrap_or((info, ""));
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((decoded(user), decoded(password)))
}

/// The proxy's address with an explicit port: the connector knows only the defaults of http and https.
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

/// TLS to a proxy whose URL begins with https.
#[derive(Clone, Debug)]
struct TlsToProxy {
    tcp: Tcp,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
}

impl TlsToProxy {
    fn new(proxy: &Uri, tcp: Tcp, tls: Arc<ClientConfig>) -> Result<Self, connection::Error> {
        let host = proxy.host().unwrap_or_default().trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned()).map_err(|_| connection::Error::unusable_proxy())?;
        Ok(Self { tcp, name, tls })
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

/// Part of the connect timeout. A handshake over a bad line takes a second or two.
const LONG_ENOUGH: Duration = Duration::from_secs(3);
/// The member did not respond at all.
#[derive(Debug, thiserror::Error)]
#[error("it did not answer in time")]
pub(super) struct Silent;

#[cfg(test)]
mod tests;
