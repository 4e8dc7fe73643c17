//! Filters request headers before they go to a member. An allow list selects the headers, so
//! unknown ones are dropped. These are pure functions; [`crate::outbound::upstream::prepared`] adds
//! identity and credential afterwards.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, Version, header};
use kubectl_mc_api::api_headers;

mod response;

pub use response::{HOP, clean_response, clean_trailers, switching_protocols};

/// The headers of a request that a member may see.
///
/// `inner_proxy` means that the member forwards the request to a program of its users (a pod, a service or a
/// node). The headers of such a program cannot be listed, so every end-to-end header is forwarded
/// except those that could carry an identity.
pub fn forwarded(headers: &HeaderMap, inner_proxy: bool) -> HeaderMap {
    let nominated = Nominated::by(headers);
    let passes = |name: &HeaderName| {
        (api_headers::is_of_requests(name.as_str()) || inner_proxy)
            && !is_hop_by_hop(name)
            && !bears_identity(name)
            && !nominated.contains(name)
    };
    let capacity = headers.keys_len().min(MAX_RESERVED) + ROOM_FOR_IDENTITY;
    let mut forwarded = HeaderMap::with_capacity(capacity);
    for (name, value) in headers {
        if passes(name) {
            forwarded.append(name.clone(), value.clone());
        }
    }
    forwarded
}

/// The `Via` header for a member (RFC 9110, 7.6.3): one entry for each pass through a sidecar. Entries of
/// other proxies are dropped, because a client can forge them. A member may have members of its own, but a
/// third pass is a routing loop.
pub fn via(headers: &HeaderMap, version: Version) -> Result<HeaderValue, Loop> {
    let came_by_us = if headers.contains_key(header::VIA) { times_by_us(headers) } else { 0 };
    match (came_by_us, version) {
        (0, Version::HTTP_2) => Ok(HeaderValue::from_static("2.0 kubectl-mc")),
        (0, _) => Ok(HeaderValue::from_static("1.1 kubectl-mc")),
        (1, Version::HTTP_2) => Ok(HeaderValue::from_static("1.1 kubectl-mc, 2.0 kubectl-mc")),
        (1, _) => Ok(HeaderValue::from_static("1.1 kubectl-mc, 1.1 kubectl-mc")),
        _ => Err(Loop),
    }
}

fn times_by_us(headers: &HeaderMap) -> usize {
    let by_us = |entry: &&str| {
        let mut words = entry.split_ascii_whitespace();
        words.nth(1).is_some_and(|by| by.eq_ignore_ascii_case(PSEUDONYM))
    };
    tokens(headers, &header::VIA).filter(by_us).count()
}

/// The request passed through a sidecar too often.
#[derive(Debug, thiserror::Error)]
#[error(
    "routing loop: the request passed through kubectl-mc too often, because a member's address leads back here"
)]
pub struct Loop;

/// Headers that `Connection` names are for one hop (RFC 9110, 7.6.1). There can be several
/// `Connection` lines.
enum Nominated {
    Names(Vec<HeaderName>),
    /// Too many names, or a line that is not text, which no honest client sends. Then every header
    /// counts as nominated, so a megabyte of tokens is cheap to handle, and an unreadable line
    /// cannot hide anything.
    All,
}

impl Nominated {
    fn by(headers: &HeaderMap) -> Self {
        if !headers.contains_key(header::CONNECTION) {
            return Self::Names(Vec::new());
        }
        if headers.get_all(header::CONNECTION).iter().any(|line| line.to_str().is_err()) {
            return Self::All;
        }
        let mut tokens = tokens(headers, &header::CONNECTION);
        let names = tokens.by_ref().take(MAX_NOMINATED).filter_map(|token| token.parse().ok()).collect();
        match tokens.next() {
            Some(_) => Self::All,
            None => Self::Names(names),
        }
    }

    fn contains(&self, name: &HeaderName) -> bool {
        match self {
            Self::Names(names) => names.contains(name),
            Self::All => true,
        }
    }
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

/// Whether a member, or a program behind it that reads `_` as `-` anywhere in a name, could read the caller's
/// identity from the header. `Host` belongs to the member.
fn bears_identity(name: &HeaderName) -> bool {
    let name = match name.as_str() {
        name if name.contains('_') => Cow::Owned(name.replace('_', "-")),
        name => Cow::Borrowed(name),
    };
    ["impersonate", "x-remote", "x-forwarded"].iter().any(|prefix| name.starts_with(prefix))
        || matches!(&*name, "authorization" | "cookie" | "host" | "forwarded" | "via" | "x-real-ip")
}

/// The sidecar's name in `Via`, which does not reveal its location.
const PSEUDONYM: &str = "kubectl-mc";
/// Capacity for the identity headers that are added later, so that the map need not grow.
const ROOM_FOR_IDENTITY: usize = 12;
/// Upper bound of the reserved capacity: a map grows when needed, and reserving too much panics.
const MAX_RESERVED: usize = 256;
/// More names than any client or proxy sends in `Connection`.
const MAX_NOMINATED: usize = 64;

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
    fn only_headers_of_the_kubernetes_api_are_forwarded() {
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
    fn identity_headers_do_not_reach_an_inner_proxy() {
        let lines = [
            ("authorization", "Bearer x"),
            ("cookie", "x"),
            ("impersonate-user", "x"),
            ("impersonate_user", "x"),
            ("x-remote-user", "x"),
            ("x_remote_user", "x"),
            ("x-remote_user", "x"),
            ("x_remote-extra-a", "x"),
            ("x-remote-extra-a", "x"),
            ("x-forwarded-for", "x"),
            ("x-forwarded-client-cert", "x"),
            ("x-forwarded_for", "x"),
            ("x_real_ip", "x"),
            ("forwarded", "x"),
            ("host", "x"),
        ];
        for inner_proxy in [false, true] {
            assert!(forwarded(&map(&lines), inner_proxy).is_empty());
        }
    }

    #[test]
    fn inner_proxy_gets_its_own_headers() {
        let headers = map(&[("x-csrf-token", "1"), ("transfer-encoding", "chunked")]);
        assert_eq!(names(&forwarded(&headers, true)), ["x-csrf-token"]);
    }

    #[test]
    fn fault_14_headers_named_by_any_connection_line_are_dropped() {
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
    fn too_many_nominated_headers_drop_all_headers() {
        for (count, left) in [(MAX_NOMINATED, 1), (MAX_NOMINATED + 1, 0)] {
            let mut headers = map(&[("accept", "*/*")]);
            let tokens = vec!["a"; count].join(",");
            headers.insert(header::CONNECTION, HeaderValue::from_str(&tokens).unwrap());
            assert_eq!(forwarded(&headers, true).len(), left, "{count}");
        }
    }

    #[test]
    fn non_text_connection_line_nominates_all_headers() {
        let mut headers = map(&[("accept", "*/*"), ("connection", "close")]);
        headers.append(header::CONNECTION, HeaderValue::from_bytes(b"accept, \xff").unwrap());
        assert!(forwarded(&headers, true).is_empty());
    }

    #[test]
    fn maximum_number_of_headers_does_not_panic() {
        let names = (0..24_570).map(|n| HeaderName::from_bytes(format!("h{n}").as_bytes()).unwrap());
        let headers: HeaderMap = names.map(|name| (name, HeaderValue::from_static("1"))).collect();
        assert_eq!(forwarded(&headers, true).len(), headers.len());
    }

    #[test]
    fn via_lists_only_the_sidecar() {
        let via = |lines: &[(&'static str, &'static str)], version| {
            via(&map(lines), version).map(|via| via.to_str().unwrap().to_owned())
        };
        let others = [("via", "1.1 nginx, 1.0 kubectl-mc-not (a comment)"), ("via", "kubectl-mc")];
        assert_eq!(via(&others, Version::HTTP_11).unwrap(), "1.1 kubectl-mc");
        assert_eq!(via(&[], Version::HTTP_2).unwrap(), "2.0 kubectl-mc");
        let once = [("via", "1.1 nginx, 2.0 Kubectl-MC (a comment)")];
        assert_eq!(via(&once, Version::HTTP_11).unwrap(), "1.1 kubectl-mc, 1.1 kubectl-mc");
        assert_eq!(via(&once, Version::HTTP_2).unwrap(), "1.1 kubectl-mc, 2.0 kubectl-mc");
        for twice in [&[("via", "1.1 kubectl-mc,2.0  kubectl-mc")][..], &[("via", "1.1 kubectl-mc"); 2]] {
            assert!(via(twice, Version::HTTP_2).is_err(), "{twice:?}");
        }
    }
}
