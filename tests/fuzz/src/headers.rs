//! A client's header lines, as they are passed on to a member, and a member's, as they come back:
//! nothing that could bear identity or concerns one connection alone passes, and nothing is made up.

use http::{HeaderMap, HeaderName, HeaderValue};
use sidecar::request::headers::{clean_response, forwarded};

use crate::lines;

pub fn run(input: &[u8]) {
    let headers = lines::headers(input);
    let nominated = lines::tokens(&headers, "connection");
    let gone =
        |name: &str| HOP_BY_HOP.contains(&name) || nominated.iter().any(|token| token == name.as_bytes());

    let (to_api, to_inner_proxy) = (forwarded(&headers, false), forwarded(&headers, true));
    for passed in [&to_api, &to_inner_proxy] {
        for name in passed.keys() {
            let read = name.as_str().replace('_', "-");
            assert!(!IDENTITY.contains(&read.as_str()), "{name} passed");
            assert!(!IDENTITIES.iter().any(|prefix| read.starts_with(prefix)), "{name} passed");
            assert!(!gone(name.as_str()), "{name} is for one connection");
        }
        assert_same_lines(&headers, passed);
    }
    assert_same_lines(&to_inner_proxy, &to_api);
    // More of them are no honest client's, and what is no text names nobody knows what.
    let few = nominated.len() <= FEW && plain(&headers);
    assert!(to_api.contains_key("accept") == headers.contains_key("accept") || gone("accept") || !few);

    for inner_proxy in [false, true] {
        let mut response = headers.clone();
        clean_response(&mut response, inner_proxy);
        assert_eq!(response.get_all("x-kubectl-mc-hop").iter().collect::<Vec<_>>(), ["member"]);
        assert_eq!(response.get_all("x-content-type-options").iter().collect::<Vec<_>>(), ["nosniff"]);
        let policy: Vec<_> = response.get_all("content-security-policy").iter().collect();
        assert!(policy.is_empty() || policy == ["sandbox"], "{policy:?}");
        assert!(!is_page(&headers) || !policy.is_empty(), "a page is not sandboxed");
        for ours in ["content-security-policy", "x-content-type-options", "x-kubectl-mc-hop"] {
            response.remove(ours);
        }
        assert_same_lines(&headers, &response);
        for name in headers.keys().map(HeaderName::as_str) {
            let kept = response.contains_key(name);
            assert!(!kept || !gone(name), "{name} came back");
            assert!(!kept || !is_of_the_origin(name), "{name} is the host's to say");
            assert!(kept || gone(name) || !few || !NEEDED.contains(&name), "{name} is lost");
        }
    }
}

/// Whether a browser would read the content as a page.
fn is_page(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all("content-type").iter().map(|value| value.as_bytes().to_ascii_lowercase());
    !headers.contains_key("content-type")
        || types.any(|value| {
            value.split(|byte| b",;".contains(byte)).any(|part| part.trim_ascii() == b"text/html")
        })
}

/// Whether a browser would take the header for the host's word, or a program for the caller's identity.
fn is_of_the_origin(name: &str) -> bool {
    ORIGIN.contains(&name)
        || ["access-control-", "impersonate", "x-remote"].iter().any(|p| name.starts_with(p))
}

/// Whatever is left has all the lines it had, in their order.
fn assert_same_lines(before: &HeaderMap, after: &HeaderMap) {
    for name in after.keys() {
        let lines = |headers: &HeaderMap| headers.get_all(name).iter().cloned().collect::<Vec<HeaderValue>>();
        assert_eq!(lines(before), lines(after), "{name}");
    }
}

/// Whether `Connection` is plain text.
fn plain(headers: &HeaderMap) -> bool {
    headers.get_all("connection").iter().all(|line| line.to_str().is_ok())
}

/// What could say who is calling, read as CGI and its kind do.
const IDENTITY: &[&str] = &["authorization", "cookie", "forwarded", "host", "proxy-authorization"];
const IDENTITIES: &[&str] = &["impersonate", "x-forwarded", "x-remote"];
/// RFC 9110, 7.6.1, RFC 7540, 3.2.1, and what older proxies send.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const ORIGIN: &[&str] = &[
    "alt-svc",
    "clear-site-data",
    "nel",
    "public-key-pins",
    "report-to",
    "reporting-endpoints",
    "location",
    "set-cookie",
    "strict-transport-security",
    "www-authenticate",
];
/// What every client of the Kubernetes API reads.
const NEEDED: &[&str] =
    &["content-encoding", "content-length", "content-type", "etag", "retry-after", "warning"];
/// So many may be named without being taken for an attack.
const FEW: usize = 64;
