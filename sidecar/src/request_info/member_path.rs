//! The part of the path that belongs to the member. It is passed on as it came; what is looked at
//! here decides only how long the request may take and which form an error takes.

use percent_encoding::percent_decode_str;

use super::{Error, asks_to_watch, pairs};

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
        let decoded: Vec<u8> = percent_decode_str(rest).collect();
        if decoded.iter().any(|b| b.is_ascii_control() || *b == b'\\') {
            return Err(Error::MemberPath("has a control character or a backslash"));
        }
        if decoded.split(|b| *b == b'/').any(|segment| matches!(segment, b"." | b"..")) {
            return Err(Error::MemberPath("has a dot segment"));
        }
        Ok(Self(format!("/{rest}")))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The calls by which kubectl learns what a server serves.
    pub(super) fn is_discovery(&self) -> bool {
        let path = self.0.trim_end_matches('/');
        matches!(path, "/api" | "/apis" | "/version")
            || path.starts_with("/openapi/")
            || (path.starts_with("/api/") && path.matches('/').count() == 2)
            || (path.starts_with("/apis/") && path.matches('/').count() <= 3)
    }

    /// apiserver: long-running are the verbs watch and proxy and the subresources attach, exec,
    /// proxy, log and portforward.
    pub(super) fn is_long_running(&self, query: Option<&str>) -> bool {
        if asks_to_watch(query) {
            return true;
        }
        let mut segments = self.0.split('/').filter(|s| !s.is_empty());
        let resource = match segments.next() {
            Some("api") => segments.nth(1),
            Some("apis") => segments.nth(2),
            _ => None,
        };
        let resource = match resource {
            Some("watch" | "proxy") => return true,
            Some("namespaces") => {
                let rest: Vec<_> = segments.collect();
                return rest.get(3).is_some_and(|s| Self::streams(s, query));
            }
            Some(_) => segments.nth(1),
            None => None,
        };
        resource.is_some_and(|s| Self::streams(s, query))
    }

    fn streams(subresource: &str, query: Option<&str>) -> bool {
        match subresource {
            "log" => pairs(query).any(|(key, value)| key == "follow" && value != "false" && value != "0"),
            "attach" | "exec" | "portforward" | "proxy" => true,
            _ => false,
        }
    }

    /// Whether the member hands this path on to a program of its users (a pod, a service or a
    /// node): such a program reads headers that the Kubernetes API does not know.
    pub fn is_inner_proxy(&self) -> bool {
        let mut segments = self.0.split('/').filter(|s| !s.is_empty());
        if segments.next() != Some("api") {
            return false;
        }
        let rest: Vec<_> = segments.skip(1).collect();
        matches!(
            rest.as_slice(),
            ["namespaces", _, "pods" | "services", _, "proxy", ..] | ["nodes", _, "proxy", ..]
        )
    }
}
