//! Parses the member's part of the path. It is forwarded unchanged; the parse determines only the longest
//! duration of the request and the format of an error.

use std::borrow::Cow;

use http::Method;
use percent_encoding::percent_decode_str;

use super::error::Error;
use super::verb::Verb;
use crate::head::field_selector;
use crate::head::query::Query;
use crate::head::unescape::unescape;

/// A path below a member's root. It begins with `/` and is exactly as the client sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPath {
    text: String,
    is_inner_proxy: bool,
}

impl MemberPath {
    pub(super) fn root() -> Self {
        Self { text: "/".to_owned(), is_inner_proxy: false }
    }

    /// Parses the part after `…/proxy/`. Dot segments are refused in every spelling, because a server behind
    /// the sidecar that cleans paths could leave the member's base path.
    pub fn parse(rest: &str) -> Result<Self, Error> {
        let bytes = unescape(rest).ok_or(Error::MemberPath("has a malformed escape"))?;
        if bytes.iter().any(|b| b.is_ascii_control() || *b == b'\\') {
            return Err(Error::MemberPath("has a control character or a backslash"));
        }
        if bytes.split(|b| *b == b'/').any(|segment| matches!(segment, b"." | b"..")) {
            return Err(Error::MemberPath("has a dot segment"));
        }
        let mut path = String::with_capacity(1 + rest.len());
        path.push('/');
        path.push_str(rest);
        let is_inner_proxy = is_inner_proxy(&decoded(&path));
        Ok(Self { text: path, is_inner_proxy })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether this is one of the calls by which kubectl discovers a server's API.
    pub(super) fn is_discovery(&self) -> bool {
        let mut segments = self.text.split('/').filter(|s| !s.is_empty());
        matches!(
            [segments.next(), segments.next(), segments.next(), segments.next()],
            [Some("api" | "apis" | "version"), None, ..]
                | [Some("api" | "apis"), Some(_), None, _]
                | [Some("apis"), Some(_), Some(_), None]
                | [Some("openapi"), Some(_), ..]
        )
    }

    /// Whether a POST of this path asks the member for the caller's identity or rights. The member stores
    /// nothing for it.
    pub fn is_self_review(&self) -> bool {
        matches!(
            self.text.as_str(),
            "/apis/authentication.k8s.io/v1/selfsubjectreviews"
                | "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
                | "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        )
    }

    /// Whether a review of the caller may use this path. Other spellings are refused: the member could find
    /// an object in `/api/v1%2Fpods` or `/apis//v1/pods`.
    pub(super) fn is_below_self_reviews(&self) -> bool {
        let is_plain = !self.text.contains('%') && !self.text.contains("//");
        self.is_self_review() || (is_plain && self.is_discovery())
    }

    /// The verb of a request for this path (apiserver: `endpoints/request/requestinfo.go`), and whether it has no natural
    /// end (apiserver: `filters/longrunning.go`, with the verbs and subresources of kube-apiserver).
    pub(super) fn resolve(&self, method: &Method, query: Option<&str>) -> (Verb, bool) {
        let path = self.decoded();
        let Some(resource) = ResourcePath::parse(&path) else {
            return (Verb::of_method(method), path.starts_with("/debug/pprof/"));
        };
        let verb = resource.verb(method, query);
        let lasts = resource.verb_in_path.is_some()
            || verb == Verb::Watch
            || matches!(resource.subresource, "attach" | "exec" | "log" | "portforward" | "proxy");
        (verb, lasts)
    }

    /// Whether the member forwards this path to a program of its users (a pod, a service or a node). Such a
    /// program reads headers that the Kubernetes API does not know.
    pub fn is_inner_proxy(&self) -> bool {
        self.is_inner_proxy
    }

    /// The path of the program that serves this path, as unescaped segments.
    pub fn program(&self) -> Option<Vec<Cow<'_, [u8]>>> {
        let mut length = 0;
        let mut segments = Vec::new();
        for segment in self.text.strip_prefix('/')?.split('/') {
            length += 1 + segment.len();
            segments.push(unescape(segment)?);
            // A name or a namespace may itself be `proxy`.
            if segment == "proxy" && is_inner_proxy(&decoded(&self.text[..length])) {
                return Some(segments);
            }
        }
        None
    }

    /// The verb and the object of a request for this path, for the audit.
    pub fn object(&self, method: &Method, query: Option<&str>) -> Option<(Verb, RequestedObject)> {
        let path = self.decoded();
        let resource = ResourcePath::parse(&path)?;
        let verb = resource.verb(method, query);
        let ResourcePath { group, version, namespace, resource, name, subresource, .. } = resource;
        let [group, version, namespace, resource, mut name, subresource] =
            [group, version, namespace, resource, name, subresource].map(str::to_owned);
        if name.is_empty() && matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection) {
            name = field_selector::named(query).unwrap_or_default();
        }
        Some((verb, RequestedObject { group, version, namespace, resource, name, subresource }))
    }

    /// The path as the member decodes it.
    pub fn decoded(&self) -> Cow<'_, str> {
        decoded(&self.text)
    }
}

fn decoded(path: &str) -> Cow<'_, str> {
    match path.contains('%') {
        true => percent_decode_str(path).decode_utf8_lossy(),
        false => Cow::Borrowed(path),
    }
}

fn is_inner_proxy(path: &str) -> bool {
    ResourcePath::parse(path).is_some_and(|resource| {
        resource.group.is_empty()
            && matches!(resource.resource, "nodes" | "pods" | "services")
            && resource.subresource == "proxy"
    })
}

/// The object that a request names, or a collection of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedObject {
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    /// Empty for a collection.
    pub name: String,
    pub subresource: String,
}

/// The parts of an API resource's path (apiserver: `endpoints/request/requestinfo.go`). Empty segments count,
/// except at either end.
#[derive(Debug, Default)]
struct ResourcePath<'a> {
    group: &'a str,
    version: &'a str,
    namespace: &'a str,
    /// `watch` or `proxy`, if the path begins with it.
    verb_in_path: Option<Verb>,
    resource: &'a str,
    /// Empty for a collection.
    name: &'a str,
    subresource: &'a str,
}

impl<'a> ResourcePath<'a> {
    /// `None` for a path that names no resource, and for a path that kube-apiserver cannot resolve.
    fn parse(path: &'a str) -> Option<Self> {
        let mut segments = path.trim_matches('/').split('/');
        let group = match segments.next()? {
            "api" => "",
            "apis" => segments.next()?,
            _ => return None,
        };
        let version = segments.next()?;
        let mut first = segments.next()?;
        let verb_in_path = match first {
            "watch" => Some(Verb::Watch),
            "proxy" => Some(Verb::Proxy),
            _ => None,
        };
        if verb_in_path.is_some() {
            first = segments.next()?;
        }
        let (second, third) = (segments.next(), segments.next());
        let namespace = if first == "namespaces" { second.unwrap_or_default() } else { "" };
        let (resource, name, subresource) = match (first, third) {
            ("namespaces", Some(resource)) if !matches!(resource, "status" | "finalize") => {
                (resource, segments.next(), segments.next())
            }
            _ => (first, second, third),
        };
        // The verb proxy has no subresources.
        let subresource = subresource.filter(|_| verb_in_path != Some(Verb::Proxy));
        let [name, subresource] = [name, subresource].map(Option::unwrap_or_default);
        Some(Self { group, version, namespace, verb_in_path, resource, name, subresource })
    }

    fn verb(&self, method: &Method, query: Option<&str>) -> Verb {
        let is_collection = self.name.is_empty();
        match self.verb_in_path.unwrap_or_else(|| Verb::of_method(method)) {
            Verb::Get if is_collection && Query::new(query).is_set("watch") => Verb::Watch,
            Verb::Get if is_collection => Verb::List,
            Verb::Delete if is_collection => Verb::DeleteCollection,
            verb => verb,
        }
    }
}
