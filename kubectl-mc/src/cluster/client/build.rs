//! Builds the HTTP client of a connection: HTTP/1.1 through any kind of proxy, with kube's timeouts.

use std::error::Error;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::uri::Authority;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use percent_encoding::percent_decode_str;
use tower::{Layer, Service};

use crate::cluster::transport::Transport;

/// The client, without a credential in `Authorization`.
pub(super) fn client(
    transport: &Transport,
    read_timeout: Option<Duration>,
) -> Result<kube::Client, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let Some(proxy) = &transport.proxy else { return through(tcp, transport, read_timeout) };
    let login = proxy.authority().and_then(login);
    let tunnel = |proxy: Uri| match &login {
        Some((name, password)) => {
            let encoded = BASE64_STANDARD.encode(format!("{name}:{password}"));
            HeaderValue::try_from(format!("Basic {encoded}")).ok().map(|header| (proxy.clone(), Some(header)))
        }
        None => Some((proxy, None)),
    };
    let unsupported = || kube::Error::ProxyProtocolUnsupported { proxy_url: Box::new(proxy.clone()) };
    match proxy.scheme_str() {
        // Go lets the proxy resolve the server's name in both.
        Some("socks5" | "socks5h") => {
            let socks = SocksV5::new(proxy.clone(), tcp);
            let socks = match login {
                Some((name, password)) => socks.with_auth(name, password),
                None => socks,
            };
            through(socks, transport, read_timeout)
        }
        Some("http") => {
            let (proxy, login) = tunnel(proxy.clone()).ok_or_else(unsupported)?;
            through(with_login(Tunnel::new(proxy, tcp), login), transport, read_timeout)
        }
        Some("https") => {
            let (proxy, login) = tunnel(proxy.clone()).ok_or_else(unsupported)?;
            let tls = with_tls(tcp, transport)?;
            through(with_login(Tunnel::new(proxy, tls), login), transport, read_timeout)
        }
        _ => Err(unsupported()),
    }
}

fn with_login<C>(tunnel: Tunnel<C>, login: Option<HeaderValue>) -> Tunnel<C> {
    match login {
        Some(header) => tunnel.with_auth(header),
        None => tunnel,
    }
}

/// The name and the password of a proxy's URL.
fn login(authority: &Authority) -> Option<(String, String)> {
    let (userinfo, _) = authority.as_str().rsplit_once('@')?;
    let (name, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((decoded(name), decoded(password)))
}

/// A connector that adds TLS to the connections of another one.
fn with_tls<C>(connector: C, transport: &Transport) -> Result<HttpsConnector<C>, kube::Error> {
    let mut https = HttpsConnectorBuilder::new().with_tls_config(transport.tls()?).https_or_http();
    if let Some(name) = &transport.server_name {
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name.clone()));
    }
    Ok(https.enable_http1().wrap_connector(connector))
}

fn through<C>(
    connector: C,
    transport: &Transport,
    read_timeout: Option<Duration>,
) -> Result<kube::Client, kube::Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<Box<dyn Error + Send + Sync>> + Send + Sync + Error + 'static,
{
    let config = transport.config();
    let mut connector = TimeoutConnector::new(with_tls(connector, transport)?);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_read_timeout(read_timeout);
    connector.set_write_timeout(config.write_timeout);
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector);
    let service = config.extra_headers_layer()?.layer(config.base_uri_layer().layer(client));
    Ok(kube::Client::new(service, config.default_namespace))
}

/// Long enough for a slow link. kubectl's own timeout is 30 s, with five attempts.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
