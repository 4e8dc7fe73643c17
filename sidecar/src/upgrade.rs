//! Upgrades of a connection for exec, attach, port-forward and cp: the handshake is passed on, and
//! after the member's 101 two byte streams are joined. Nothing in between reads SPDY or WebSocket.
//!
//! An upgrade has a connection to the member of its own, as kube-apiserver's proxies do
//! (apimachinery: `util/proxy/upgradeaware.go`). Whatever is not a 101 for the protocol that was
//! asked for ends both connections, so that no byte of the client's can reach the member as a
//! request that nobody authorized (CVE-2018-1002105).

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, debug};

use crate::body::Body;
use crate::headers::{self, tokens};
use crate::inventory::{Cluster, Inventory};
use crate::metrics::Metrics;
use crate::proxy::Draft;
use crate::record::Record;
use crate::upstream::{self, Exchange};

mod offer;
mod splice;

use offer::Offer;

/// The protocols that kubectl upgrades to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    WebSocket,
    Spdy,
}

impl Protocol {
    /// The protocol a request asks for. A request that only hints at an upgrade is refused: the
    /// host's proxy treats it as one (it looks for `upgrade` anywhere in `Connection`), and two
    /// readings of one request are one too many.
    pub fn requested(
        version: Version,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Option<Self>, NotAllowed> {
        let hints =
            |value: &HeaderValue| value.as_bytes().to_ascii_lowercase().windows(7).any(|w| w == b"upgrade");
        let hinted = headers.get_all(header::CONNECTION).iter().any(hints);
        let named: Vec<_> = headers.get_all(header::UPGRADE).iter().collect();
        if !hinted && named.is_empty() {
            return Ok(None);
        }
        if version < Version::HTTP_11 {
            return Err(NotAllowed::Version);
        }
        if !tokens(headers, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade")) {
            return Err(NotAllowed::Connection);
        }
        let protocol = match named.as_slice() {
            [one] => Self::named(one).ok_or(NotAllowed::Protocol)?,
            _ => return Err(NotAllowed::Protocol),
        };
        let has_body = headers.contains_key(header::TRANSFER_ENCODING)
            || headers.get_all(header::CONTENT_LENGTH).iter().any(|length| length != "0");
        match (protocol, method) {
            _ if has_body => Err(NotAllowed::Body),
            (Self::WebSocket, &Method::GET) if !opens_a_web_socket(headers) => Err(NotAllowed::Handshake),
            (Self::WebSocket, &Method::GET) | (Self::Spdy, &Method::GET | &Method::POST) => {
                Ok(Some(protocol))
            }
            _ => Err(NotAllowed::Method),
        }
    }

    fn named(value: &HeaderValue) -> Option<Self> {
        let value = value.as_bytes().trim_ascii();
        [Self::WebSocket, Self::Spdy].into_iter().find(|p| value.eq_ignore_ascii_case(p.as_str().as_bytes()))
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::WebSocket => "websocket",
            Self::Spdy => "SPDY/3.1",
        }
    }
}

/// Whether the handshake has its key and the one version there is (RFC 6455, 4.2.1).
fn opens_a_web_socket(headers: &HeaderMap) -> bool {
    let only = |name| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none())
    };
    only(header::SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13")
        && only(header::SEC_WEBSOCKET_KEY).is_some_and(|key| !key.is_empty())
}

/// What outlives the request: the tasks that join connections.
#[derive(Clone, Debug)]
pub struct Tunnels {
    pub tasks: TaskTracker,
    /// Ends every tunnel, and every long-running request.
    pub stop: CancellationToken,
    pub metrics: Arc<Metrics>,
}

/// Takes from a request its claim on the connection it came by.
pub fn downstream(request: &mut Request<Incoming>) -> OnUpgrade {
    hyper::upgrade::on(request)
}

/// Sends an upgrade to the member and, if it agrees, joins the two connections.
pub async fn forward(
    inventory: &Inventory,
    cluster: &Cluster,
    draft: Draft<'_>,
    protocol: Protocol,
    downstream: OnUpgrade,
    tunnels: &Tunnels,
    record: Record,
) -> Result<Response<Body>, crate::Error> {
    let offer = Offer::of(protocol, draft.headers());
    let (mut response, connection) = match exchange(inventory, cluster, draft).await? {
        Exchange::Switched { response, connection } => (response, connection),
        Exchange::Refused { response } if response.status().as_u16() < 400 => {
            return Err(Error::NoSwitch(cluster.name.to_string(), response.status()).into());
        }
        // The member's own refusal is passed on, and its end is the end of both connections.
        Exchange::Refused { response } => return Ok(response),
    };
    let agreed = match response.headers().get_all(header::UPGRADE).iter().collect::<Vec<_>>().as_slice() {
        [one] => Protocol::named(one),
        _ => None,
    };
    if agreed != Some(protocol) {
        return Err(Error::OtherProtocol(cluster.name.to_string(), protocol.as_str()).into());
    }
    if !offer.admits(response.headers()) {
        return Err(Error::NotOffered(cluster.name.to_string()).into());
    }
    let upstream = hyper::upgrade::on(&mut response);
    let mut head = Response::new(Body::Empty);
    *head.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *head.headers_mut() = headers::switching_protocols(response.headers(), protocol);
    let (stop, over) = (tunnels.stop.child_token(), record.over());
    let open = Open::new(tunnels.metrics.clone());
    tunnels.tasks.spawn(
        async move {
            // Held to the end: what the member's connection needs to live, the permits, the count.
            let _held = (connection, record, open);
            let mut over = over;
            // Cancel-safe: a connection that was not handed over is closed.
            let handed_over = tokio::select! {
                biased;
                () = &mut over => return,
                handed_over = async { tokio::try_join!(downstream, upstream) } => handed_over,
            };
            match handed_over {
                Ok((downstream, upstream)) => splice::join(downstream, upstream, stop, over).await,
                Err(error) => debug!(error = %error, "the connection was not handed over"),
            }
        }
        .in_current_span(),
    );
    Ok(head)
}

/// Asks the member, and once more with another credential if ours was refused and there is another, or
/// if it lets us impersonate the caller only now: nothing of the client's stream was sent.
async fn exchange(
    inventory: &Inventory,
    cluster: &Cluster,
    mut draft: Draft<'_>,
) -> Result<Exchange, crate::Error> {
    let answered = cluster.upstream.upgrade(draft.prepare(cluster)?).await;
    if matches!(answered, Err(upstream::Error::Credential { .. }))
        && let Some(renewed) = Box::pin(inventory.renewed(cluster)).await
    {
        let answered = renewed.upstream.upgrade(draft.prepare(&renewed)?).await;
        let again = |prepared| renewed.upstream.upgrade(prepared);
        return draft.settled(inventory, &renewed, answered, Some(again)).await;
    }
    let again = |prepared| cluster.upstream.upgrade(prepared);
    draft.settled(inventory, cluster, answered, Some(again)).await
}

/// Counts an open tunnel.
#[derive(Debug)]
struct Open(Arc<Metrics>);

impl Open {
    fn new(metrics: Arc<Metrics>) -> Self {
        metrics.tunnels.inc();
        Self(metrics)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.tunnels.dec();
    }
}

/// Why a request may not ask for an upgrade.
#[derive(Debug, thiserror::Error)]
pub enum NotAllowed {
    /// RFC 9110, 7.8
    #[error("an HTTP/1.0 connection cannot be upgraded")]
    Version,
    #[error("an upgrade needs the token Upgrade in Connection and a protocol in Upgrade")]
    Connection,
    #[error("a connection can be upgraded to websocket or SPDY/3.1 only")]
    Protocol,
    #[error("an upgrade has no body")]
    Body,
    #[error("this method cannot upgrade a connection")]
    Method,
    #[error("a WebSocket is opened with one Sec-WebSocket-Key and Sec-WebSocket-Version 13")]
    Handshake,
}

/// Why a member's answer to an upgrade is not passed on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("member {0} switched to another protocol than {1}")]
    OtherProtocol(String, &'static str),
    #[error("member {0} chose a subprotocol that was not offered to it")]
    NotOffered(String),
    #[error("member {0} answered an upgrade with {1}")]
    NoSwitch(String, StatusCode),
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn requested(
        method: &Method,
        lines: &[(&'static str, &'static str)],
    ) -> Result<Option<Protocol>, NotAllowed> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        Protocol::requested(Version::HTTP_11, method, &headers)
    }

    #[test]
    fn upgrade_over_http_1_0_is_refused() {
        for (name, value) in [("connection", "upgrade"), ("upgrade", "SPDY/3.1")] {
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))]);
            let requested = Protocol::requested(Version::HTTP_10, &Method::POST, &headers);
            assert!(matches!(requested, Err(NotAllowed::Version)), "{name}: {requested:?}");
        }
        let plain = Protocol::requested(Version::HTTP_10, &Method::GET, &HeaderMap::new());
        assert!(matches!(plain, Ok(None)));
    }

    #[test]
    fn kubectls_two_ways_are_known() {
        let web_socket =
            [&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")], HANDSHAKE].concat();
        assert_eq!(requested(&Method::GET, &web_socket).unwrap(), Some(Protocol::WebSocket));
        let spdy = requested(&Method::POST, &[("connection", "upgrade"), ("upgrade", "spdy/3.1")]);
        assert_eq!(spdy.unwrap(), Some(Protocol::Spdy));
        assert_eq!(requested(&Method::GET, &[("connection", "keep-alive")]).unwrap(), None);
    }

    #[test]
    fn fault_60_a_websocket_without_its_handshake_is_refused() {
        let [key, version] = [HANDSHAKE[0], HANDSHAKE[1]];
        for handshake in [
            &[][..],
            &[key],
            &[version],
            &[key, ("sec-websocket-version", "8")],
            &[key, ("sec-websocket-version", "13, 8")],
            &[key, version, version],
            &[key, key, version],
            &[("sec-websocket-key", ""), version],
        ] {
            let lines = [&[("connection", "upgrade"), ("upgrade", "websocket")], handshake].concat();
            assert!(matches!(requested(&Method::GET, &lines), Err(NotAllowed::Handshake)), "{lines:?}");
        }
        let lines = [&[("connection", "upgrade"), ("upgrade", "websocket")], HANDSHAKE].concat();
        assert!(matches!(requested(&Method::POST, &lines), Err(NotAllowed::Method)));
    }

    const HANDSHAKE: &[(&str, &str)] =
        &[("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="), ("sec-websocket-version", "13")];

    #[test]
    fn fault_59_every_other_hint_of_an_upgrade_is_refused() {
        for (method, lines) in [
            (Method::GET, &[("connection", "x-upgrade-y")][..]),
            (Method::GET, &[("connection", "x-upgrade-y"), ("upgrade", "websocket")]),
            (Method::GET, &[("upgrade", "websocket")]),
            (Method::GET, &[("connection", "upgrade")]),
            (Method::GET, &[("connection", "upgrade"), ("upgrade", "h2c")]),
            (Method::GET, &[("connection", "upgrade"), ("upgrade", "websocket, h2c")]),
            (Method::GET, &[("connection", "upgrade"), ("upgrade", "websocket"), ("upgrade", "h2c")]),
            (Method::GET, &[("connection", "upgrade"), ("upgrade", "tls/1.0")]),
            (Method::POST, &[("connection", "upgrade"), ("upgrade", "websocket")]),
            (Method::DELETE, &[("connection", "upgrade"), ("upgrade", "SPDY/3.1")]),
            (Method::POST, &[("connection", "upgrade"), ("upgrade", "SPDY/3.1"), ("content-length", "5")]),
            (
                Method::POST,
                &[("connection", "upgrade"), ("upgrade", "SPDY/3.1"), ("transfer-encoding", "chunked")],
            ),
        ] {
            assert!(requested(&method, lines).is_err(), "{method} {lines:?}");
        }
    }
}
