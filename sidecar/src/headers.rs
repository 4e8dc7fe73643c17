//! Header hygiene, both ways. What goes to a member is chosen by an allow rule, so that a header
//! nobody thought of is left behind and not passed on. Pure functions; identity and credential are
//! set afterwards, by [`crate::proxy`].

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// The headers of a request that a member may see.
///
/// `inner_proxy` says that the member hands the request on to a program of its users, whose own
/// headers nobody can list: there everything end-to-end passes but what could bear identity.
pub fn forwarded(headers: &HeaderMap, inner_proxy: bool) -> HeaderMap {
    let nominated = nominated(headers);
    let passes = |name: &HeaderName| {
        !is_hop_by_hop(name)
            && !nominated.contains(name)
            && !bears_identity(name)
            && (is_of_the_api(name) || inner_proxy)
    };
    let mut forwarded = HeaderMap::with_capacity(headers.keys_len() + ROOM_FOR_IDENTITY);
    for (name, value) in headers {
        if passes(name) {
            forwarded.append(name.clone(), value.clone());
        }
    }
    forwarded
}

/// Takes out of a member's response what concerns only our connection to it.
pub fn clean_response(headers: &mut HeaderMap) {
    let nominated = nominated(headers);
    let remove: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_hop_by_hop(name) || nominated.contains(name) || *name == header::ALT_SVC)
        .cloned()
        .collect();
    for name in remove {
        headers.remove(name);
    }
}

/// Headers that `Connection` names are for one hop (RFC 9110, 7.6.1). There can be several
/// `Connection` lines.
fn nominated(headers: &HeaderMap) -> Vec<HeaderName> {
    tokens(headers, &header::CONNECTION).filter_map(|token| token.parse().ok()).collect()
}

/// The comma-separated tokens of all lines of a header.
pub fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().filter_map(|value: &HeaderValue| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "http2-settings"
    )
}

/// Whether a member, or a program behind it that reads `_` as `-`, could take the header for a
/// statement about who is calling. `Host` is the member's own.
fn bears_identity(name: &HeaderName) -> bool {
    let name = name.as_str();
    ["impersonate", "x-remote-", "x_remote", "x-forwarded-", "x_forwarded"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || matches!(name, "authorization" | "cookie" | "host" | "forwarded" | "via" | "x-real-ip")
}

/// The headers that the Kubernetes API and its clients use.
fn is_of_the_api(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(
        name,
        "accept"
            | "accept-encoding"
            | "accept-language"
            | "audit-id"
            | "cache-control"
            | "content-encoding"
            | "content-language"
            | "content-type"
            | "kubectl-command"
            | "kubectl-session"
            | "pragma"
            | "range"
            | "traceparent"
            | "tracestate"
            | "user-agent"
            | "x-stream-protocol-version"
    ) || ["if-", "sec-websocket-", "x-kubernetes-"].iter().any(|prefix| name.starts_with(prefix))
}

/// Room for the identity that is added, so that the map need not grow.
const ROOM_FOR_IDENTITY: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        headers.keys().map(HeaderName::as_str).collect()
    }

    #[test]
    fn what_the_api_uses_passes_and_the_rest_does_not() {
        let headers = map(&[
            ("accept", "application/json"),
            ("kubectl-command", "kubectl get"),
            ("if-none-match", "x"),
            ("x-anything", "1"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("x-stream-protocol-version", "v3.channel.k8s.io"),
            ("origin", "https://evil"),
        ]);
        let forwarded = forwarded(&headers, false);
        assert_eq!(
            names(&forwarded),
            ["accept", "kubectl-command", "if-none-match", "x-stream-protocol-version"]
        );
        assert_eq!(forwarded.get_all("x-stream-protocol-version").iter().count(), 2, "lines stay lines");
    }

    #[test]
    fn nothing_that_could_bear_identity_passes_not_even_to_an_inner_proxy() {
        let lines = [
            ("authorization", "Bearer x"),
            ("cookie", "x"),
            ("impersonate-user", "x"),
            ("impersonate_user", "x"),
            ("x-remote-user", "x"),
            ("x_remote_user", "x"),
            ("x-remote-extra-a", "x"),
            ("x-forwarded-for", "x"),
            ("x-forwarded-client-cert", "x"),
            ("forwarded", "x"),
            ("host", "x"),
        ];
        for inner_proxy in [false, true] {
            assert!(forwarded(&map(&lines), inner_proxy).is_empty());
        }
    }

    #[test]
    fn an_inner_proxys_own_headers_pass() {
        let headers = map(&[("x-csrf-token", "1"), ("transfer-encoding", "chunked")]);
        assert_eq!(names(&forwarded(&headers, true)), ["x-csrf-token"]);
    }

    #[test]
    fn nominated_headers_are_dropped_from_every_connection_line() {
        let headers = map(&[
            ("connection", "close, X-Csrf-Token"),
            ("connection", " accept "),
            ("x-csrf-token", "1"),
            ("accept", "*/*"),
            ("user-agent", "kubectl"),
        ]);
        assert_eq!(names(&forwarded(&headers, true)), ["user-agent"]);
    }

    #[test]
    fn a_response_loses_what_concerns_our_connection_only() {
        let mut headers = map(&[
            ("connection", "close, x-hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("alt-svc", "h3=\":443\""),
            ("content-type", "application/json"),
            ("warning", "299 - a"),
            ("warning", "299 - b"),
        ]);
        clean_response(&mut headers);
        let mut left = names(&headers);
        left.sort_unstable();
        assert_eq!(left, ["content-type", "warning"]);
        assert_eq!(headers.get_all("warning").iter().count(), 2);
    }
}
