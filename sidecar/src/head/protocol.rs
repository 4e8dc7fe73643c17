//! Finds the protocol to which a request asks to upgrade its connection (RFC 9110, 7.8).

use http::{HeaderMap, HeaderValue, Method, Version, header};

use crate::head::headers::tokens;

/// The protocols that kubectl upgrades to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    WebSocket,
    Spdy,
}

impl Protocol {
    /// The protocol that a request asks for. A request that only hints at an upgrade is refused: the host's
    /// proxy would treat it as one (it looks for `upgrade` anywhere in `Connection`), and the two must not
    /// read one request differently.
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

    /// The protocol with this name in `Upgrade`.
    pub fn named(value: &HeaderValue) -> Option<Self> {
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

/// Whether the handshake has a key and the only defined version (RFC 6455, 4.2.1).
fn opens_a_web_socket(headers: &HeaderMap) -> bool {
    let only = |name| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none())
    };
    only(header::SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13")
        && only(header::SEC_WEBSOCKET_KEY).is_some_and(|key| !key.is_empty())
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
    fn kubectls_upgrade_protocols_are_accepted() {
        let web_socket =
            [&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")], HANDSHAKE].concat();
        assert_eq!(requested(&Method::GET, &web_socket).unwrap(), Some(Protocol::WebSocket));
        let spdy = requested(&Method::POST, &[("connection", "upgrade"), ("upgrade", "spdy/3.1")]);
        assert_eq!(spdy.unwrap(), Some(Protocol::Spdy));
        assert_eq!(requested(&Method::GET, &[("connection", "keep-alive")]).unwrap(), None);
    }

    #[test]
    fn fault_60_websocket_without_valid_handshake_is_refused() {
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
    fn fault_59_any_incomplete_upgrade_request_is_refused() {
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
