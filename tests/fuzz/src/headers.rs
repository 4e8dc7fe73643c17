//! A client's header lines, as they are passed on to a member, and a member's, as they come back:
//! nothing that could bear identity or concerns one connection alone passes, and nothing is made up.

use http::{HeaderMap, HeaderValue};
use sidecar::headers::{clean_response, forwarded};

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

    let mut response = headers.clone();
    clean_response(&mut response);
    assert_same_lines(&headers, &response);
    for name in headers.keys() {
        let kept = response.contains_key(name);
        assert!(!kept || !gone(name.as_str()), "{name} came back");
        assert!(kept || gone(name.as_str()) || !few || is_of_the_origin(name.as_str()), "{name} is lost");
        assert!(!kept || !is_of_the_origin(name.as_str()), "{name} is the host's to say");
    }
}

/// What a browser would take for a word of the host's, or a program for one about who is calling.
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
    "set-cookie",
    "strict-transport-security",
];
/// So many may be named without being taken for an attack.
const FEW: usize = 64;
