//! Fuzzes a client's header lines as they are forwarded to a member, and a member's as they are
//! returned: no header gets through that could carry identity or that concerns only one connection,
//! and none is added.

use std::sync::LazyLock;

use http::{HeaderMap, HeaderName, HeaderValue};
use sidecar::head::headers::{clean_response, forwarded};

use crate::lines;

/// The lists of docs/reference/headers.md.
static PROMISED: LazyLock<Promised> = LazyLock::new(|| Promised {
    request: List::of("Request headers for the API of a member"),
    identity: List::of("Request headers about identity"),
    connection: List::of("Headers of one connection"),
    response: List::of("Response headers of the API of a member"),
    program: List::of("Response headers of an inner proxy"),
    acted_on: List::of("Response headers that no inner proxy may send"),
    ours: List::of("Response headers of the sidecar"),
});

struct Promised {
    request: List,
    identity: List,
    connection: List,
    response: List,
    program: List,
    acted_on: List,
    ours: List,
}

/// Names of headers. One that ends with `*` stands for all names with that prefix.
struct List(Vec<&'static str>);

impl List {
    /// The names in the first list of a section.
    fn of(section: &str) -> Self {
        let page = include_str!("../../../docs/reference/headers.md");
        let section =
            page.split("\n## ").find_map(|part| part.strip_prefix(section)).expect("the section is there");
        let list = section
            .split("\n\n")
            .find(|paragraph| paragraph.starts_with('`'))
            .expect("the section has a list");
        let names: Vec<_> = list.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty());
        Self(names)
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|one| one.strip_suffix('*').map_or(*one == name, |prefix| name.starts_with(prefix)))
    }
}

pub fn run(input: &[u8]) {
    let promised = &*PROMISED;
    let headers = lines::headers(input);
    let nominated = lines::tokens(&headers, "connection");
    let gone =
        |name: &str| promised.connection.has(name) || nominated.iter().any(|token| token == name.as_bytes());
    // If `Connection` lists too many headers, or is not text, the sidecar removes all headers.
    let few = nominated.len() <= FEW && plain(&headers);

    for inner_proxy in [false, true] {
        let passed = forwarded(&headers, inner_proxy);
        assert_same_lines(&headers, &passed);
        for name in headers.keys().map(HeaderName::as_str) {
            let may = (inner_proxy || promised.request.has(name))
                && !promised.identity.has(&name.replace('_', "-"))
                && !gone(name)
                && few;
            assert_eq!(passed.contains_key(name), may, "{name}, inner proxy: {inner_proxy}");
        }

        let mut response = headers.clone();
        clean_response(&mut response, inner_proxy);
        assert_eq!(response.get_all("x-kubectl-mc-hop").iter().collect::<Vec<_>>(), ["member"]);
        assert_eq!(response.get_all("x-content-type-options").iter().collect::<Vec<_>>(), ["nosniff"]);
        let policy: Vec<_> = response.get_all("content-security-policy").iter().collect();
        assert!(policy.is_empty() || policy == ["sandbox"], "{policy:?}");
        assert!(!is_page(&headers) || !policy.is_empty(), "a page is not sandboxed");
        response.remove("content-security-policy");
        for name in headers.keys().map(HeaderName::as_str).filter(|name| !promised.ours.has(name)) {
            let of_a_program = inner_proxy && promised.program.has(name) && !promised.acted_on.has(name);
            let may = (promised.response.has(name) || of_a_program) && !gone(name) && few;
            assert_eq!(response.contains_key(name), may, "{name} of an answer, inner proxy: {inner_proxy}");
        }
        promised.ours.0.iter().for_each(|name| drop(response.remove(*name)));
        assert_same_lines(&headers, &response);
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

/// Asserts that each remaining header has all its lines, in order.
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

/// Up to this number of names is not regarded as an attack.
const FEW: usize = 64;
