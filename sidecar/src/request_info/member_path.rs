//! The part of the path that belongs to the member. It is passed on as it came; what is looked at
//! here decides only how long the request may take and which form an error takes.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::{Error, asks_to_watch, is_set};

/// A path below a member's root, beginning with `/`, exactly as the client spelt it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPath(String);

impl MemberPath {
    pub(super) fn root() -> Self {
        Self("/".to_owned())
    }

    /// Takes what follows `…/proxy/`. Dot segments are refused however they are spelt: whoever
    /// cleans the path behind us could leave the member's base path by them.
    pub(super) fn parse(rest: &str) -> Result<Self, Error> {
        let decoded = match rest.contains('%') {
            true => Cow::Owned(percent_decode_str(rest).collect()),
            false => Cow::Borrowed(rest.as_bytes()),
        };
        if decoded.iter().any(|b| b.is_ascii_control() || *b == b'\\') {
            return Err(Error::MemberPath("has a control character or a backslash"));
        }
        if decoded.split(|b| *b == b'/').any(|segment| matches!(segment, b"." | b"..")) {
            return Err(Error::MemberPath("has a dot segment"));
        }
        let mut path = String::with_capacity(1 + rest.len());
        path.push('/');
        path.push_str(rest);
        Ok(Self(path))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The calls by which kubectl learns what a server serves.
    pub(super) fn is_discovery(&self) -> bool {
        let mut segments = self.0.split('/').filter(|s| !s.is_empty());
        matches!(
            [segments.next(), segments.next(), segments.next(), segments.next()],
            [Some("api" | "apis" | "version"), None, ..]
                | [Some("api" | "apis"), Some(_), None, _]
                | [Some("apis"), Some(_), Some(_), None]
                | [Some("openapi"), Some(_), ..]
        )
    }

    /// apiserver: long-running are the verbs watch and proxy and the subresources attach, exec,
    /// proxy, log and portforward. `get` says that the method is one that reads: only that can watch.
    pub(super) fn is_long_running(&self, get: bool, query: Option<&str>) -> bool {
        let path = self.decoded();
        let segments = Segments::of(&path);
        let (["api", _, resource @ ..] | ["apis", _, _, resource @ ..]) = segments.as_slice() else {
            return false;
        };
        match resource {
            ["watch" | "proxy", ..] => true,
            ["namespaces", _, _, _, subresource, ..] if Self::streams(subresource, query) => true,
            [_, _, subresource, ..] if Self::streams(subresource, query) => true,
            [.., name_or_collection] if !name_or_collection.is_empty() => get && asks_to_watch(query),
            _ => false,
        }
    }

    fn streams(subresource: &str, query: Option<&str>) -> bool {
        match subresource {
            "log" => is_set("follow", query),
            "attach" | "exec" | "portforward" | "proxy" => true,
            _ => false,
        }
    }

    /// Whether the member hands this path on to a program of its users (a pod, a service or a
    /// node): such a program reads headers that the Kubernetes API does not know.
    pub fn is_inner_proxy(&self) -> bool {
        matches!(
            Segments::of(&self.decoded()).as_slice(),
            ["api", _, "namespaces", _, "pods" | "services", _, "proxy", ..]
                | ["api", _, "nodes", _, "proxy", ..]
        )
    }

    fn decoded(&self) -> Cow<'_, str> {
        match self.0.contains('%') {
            true => percent_decode_str(&self.0).decode_utf8_lossy(),
            false => Cow::Borrowed(&self.0),
        }
    }
}

/// As many of a path's segments as tell what it is for. Empty ones do not count.
struct Segments<'a> {
    first: [&'a str; LONGEST],
    count: usize,
}

impl<'a> Segments<'a> {
    fn of(path: &'a str) -> Self {
        let mut segments = Self { first: [""; LONGEST], count: 0 };
        for segment in path.split('/').filter(|s| !s.is_empty()).take(LONGEST) {
            segments.first[segments.count] = segment;
            segments.count += 1;
        }
        segments
    }

    fn as_slice(&self) -> &[&'a str] {
        &self.first[..self.count]
    }
}

/// `apis/<group>/<version>/namespaces/<namespace>/<resource>/<name>/<subresource>`, and one more for
/// what follows.
const LONGEST: usize = 9;
