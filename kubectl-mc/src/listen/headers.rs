//! Selects the headers of requests and responses with an allow list, as the sidecar does: those of
//! the Kubernetes API. The caller's `Authorization`, `Cookie` and `Host`, and the headers of one
//! connection (RFC 9110, 7.6.1), are not forwarded.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use kubectl_mc_api::{api_headers, hop};

use super::refusal::Refusal;

/// A protocol that a connection may switch to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    WebSocket,
    Spdy,
}

impl Protocol {
    fn parse(value: &HeaderValue) -> Option<Self> {
        let text = value.to_str().ok()?;
        [Self::WebSocket, Self::Spdy].into_iter().find(|one| text.eq_ignore_ascii_case(one.as_str()))
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::WebSocket => "websocket",
            Self::Spdy => "SPDY/3.1",
        }
    }

    /// The protocol that a message requests; `None` for every other one, which a server may ignore.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let is_upgrade = tokens(headers, &header::CONNECTION).any(|token| token == "upgrade");
        let mut upgrades = headers.get_all(header::UPGRADE).iter();
        match (is_upgrade, upgrades.next(), upgrades.next()) {
            (true, Some(protocol), None) => Self::parse(protocol),
            _ => None,
        }
    }

    fn request(self, headers: &mut HeaderMap) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static(self.as_str()));
    }
}

/// The headers of a request that are forwarded to the cluster.
pub(super) fn of_request(headers: &HeaderMap, upgrade: Option<Protocol>) -> Result<HeaderMap, Refusal> {
    let is_ordinary = |token: String| OF_CONNECTION.contains(&&*token);
    if !tokens(headers, &header::CONNECTION).all(is_ordinary) {
        // A header that the next hop would drop and that restricts what the request may do.
        return Err(Refusal::Head("names a header in Connection that belongs to the request"));
    }
    if headers.keys().any(|name| name.as_str().starts_with("impersonate-") && !is_impersonation(name)) {
        // Without the header the request would run as a more powerful user.
        return Err(Refusal::Head("has an unknown Impersonate- header"));
    }
    let mut sent =
        selected(headers, |name| api_headers::is_of_requests(name.as_str()) || is_impersonation(name));
    if let Some(protocol) = upgrade {
        protocol.request(&mut sent);
    }
    Ok(sent)
}

/// Whether a request impersonates another user.
pub(super) fn impersonates(headers: &HeaderMap) -> bool {
    headers.keys().any(is_impersonation)
}

/// The headers of a response that are forwarded to the tool.
pub(super) fn of_response(headers: &HeaderMap, upgrade: Option<Protocol>) -> HeaderMap {
    let passes = |name: &HeaderName| {
        let name = name.as_str();
        api_headers::is_of_responses(name)
            || name == hop::HEADER
            || upgrade.is_some() && api_headers::is_of_a_switch(name)
    };
    let mut sent = selected(headers, passes);
    match upgrade {
        Some(protocol) => protocol.request(&mut sent),
        None => {
            // A member's page must not belong to the listener's origin, which has other clusters.
            sent.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            sent.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
        }
    }
    sent
}

fn selected(headers: &HeaderMap, passes: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let mut selected = HeaderMap::new();
    for (name, value) in headers.iter().filter(|(name, _)| passes(name)) {
        selected.append(name.clone(), value.clone());
    }
    selected
}

/// The comma-separated tokens of all lines of a header, in lower case. A line that is not text is
/// one token.
fn tokens(headers: &HeaderMap, name: &HeaderName) -> impl Iterator<Item = String> {
    let lines = headers.get_all(name).iter().map(|line| String::from_utf8_lossy(line.as_bytes()));
    let tokens = lines
        .flat_map(|line| line.split(',').map(|token| token.trim().to_ascii_lowercase()).collect::<Vec<_>>());
    tokens.filter(|token| !token.is_empty())
}

fn is_impersonation(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(name, "impersonate-user" | "impersonate-group" | "impersonate-uid")
        || name.starts_with("impersonate-extra-")
}

/// The tokens of `Connection` that clients send and that do not name a header of the request
/// itself.
const OF_CONNECTION: &[&str] = &["close", "http2-settings", "keep-alive", "te", "upgrade"];

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let lines = lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, value);
        }
        headers
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        headers.keys().map(HeaderName::as_str).collect()
    }

    #[test]
    fn only_headers_of_the_api_go_on() {
        let headers = map(&[
            ("host", "m1.localhost:4000"),
            ("authorization", "Bearer secret"),
            ("cookie", "a=b"),
            ("origin", "https://m1.localhost:4000"),
            ("referer", "https://m1.localhost:4000/"),
            ("x-remote-user", "root"),
            ("x-forwarded-for", "1.2.3.4"),
            ("forwarded", "for=1.2.3.4"),
            ("connection", "keep-alive, Upgrade, TE"),
            ("upgrade", "h2c"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("content-length", "5"),
            ("proxy-authorization", "Basic x"),
            ("accept", "application/json"),
            ("impersonate-user", "jane"),
            ("impersonate-extra-scopes", "a"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
        ]);
        assert_eq!(
            names(&of_request(&headers, None).unwrap()),
            ["accept", "impersonate-user", "impersonate-extra-scopes", "x-stream-protocol-version"]
        );
    }

    /// CVE-2021-31999: a nominated header is dropped, and the request runs as a more powerful user.
    #[test]
    fn nominated_and_unknown_impersonation_is_refused() {
        for lines in [
            &[("connection", "Impersonate-User"), ("impersonate-user", "jane")][..],
            &[("connection", "close"), ("connection", "keep-alive, impersonate-user")],
            &[("impersonate-usr", "jane")],
        ] {
            assert!(matches!(of_request(&map(lines), None), Err(Refusal::Head(_))), "{lines:?}");
        }
    }

    #[test]
    fn upgrade_needs_both_headers_and_a_known_protocol() {
        for (lines, expected) in [
            (&[("connection", "Upgrade"), ("upgrade", "websocket")][..], Some(Protocol::WebSocket)),
            (&[("connection", "keep-alive, upgrade"), ("upgrade", "SPDY/3.1")], Some(Protocol::Spdy)),
            (&[("connection", "Upgrade"), ("upgrade", "h2c")], None),
            (&[("upgrade", "websocket")], None),
            (&[("connection", "Upgrade")], None),
            (&[("connection", "Upgrade"), ("upgrade", "websocket"), ("upgrade", "h2c")], None),
        ] {
            assert_eq!(Protocol::of(&map(lines)), expected, "{lines:?}");
        }
        let sent = of_request(&map(&[("sec-websocket-key", "x")]), Some(Protocol::WebSocket)).unwrap();
        assert_eq!(names(&sent), ["sec-websocket-key", "connection", "upgrade"]);
    }

    #[test]
    fn response_sets_nothing_in_a_browser() {
        let headers = map(&[
            ("content-type", "text/html"),
            ("set-cookie", "a=b"),
            ("strict-transport-security", "max-age=1"),
            ("access-control-allow-origin", "*"),
            ("content-security-policy", "default-src *"),
            ("service-worker-allowed", "/"),
            ("refresh", "0; url=https://evil.example"),
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
        ]);
        let sent = of_response(&headers, None);
        assert_eq!(names(&sent), ["content-type", "x-content-type-options", "content-security-policy"]);
        assert_eq!(sent[header::CONTENT_SECURITY_POLICY], "sandbox");
    }
}
