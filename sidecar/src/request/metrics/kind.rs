//! The labels of a request: its verb, and the API of the sidecar that it addresses. Names in a member's path
//! are chosen by callers, so they are never labels.

use std::fmt::Error;

use http::Method;
use kubectl_mc_api::Origin;
use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder};

use crate::request::request_info::{RequestInfo, Route};

/// The kind of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kind {
    verb: Verb,
    object: Object,
    /// Determined by the labels: otherwise two kinds with equal labels would be one series twice.
    is_long_running: bool,
}

/// The verbs of upstream's metrics: HTTP methods, except for some reads (apiserver: `CleanVerb`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Verb {
    Get,
    List,
    Watch,
    Post,
    Put,
    Patch,
    Delete,
    DeleteCollection,
    Connect,
    #[default]
    Other,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Object {
    Proxy(Origin),
    Attach,
    Cluster,
    Clusters,
    HubObjects(Origin),
    Path(&'static str),
    #[default]
    Unknown,
}

impl Kind {
    /// The kind of a parsed request. `query` is the target's.
    pub fn of(info: &RequestInfo, method: &Method, query: Option<&str>) -> Self {
        let is_long_running = info.is_long_running(query);
        let (verb, object) = match &info.route {
            Route::Proxy(group, ..) if info.upgrade.is_some() => (Verb::Connect, Object::Proxy(*group)),
            Route::Proxy(group, _, path) => {
                let verb = path.verb(method, query).map_or_else(|| Verb::of_method(method), Verb::of);
                (verb, Object::Proxy(*group))
            }
            Route::Attach(_) => (Verb::Connect, Object::Attach),
            Route::Clusters(Some(_)) => (Verb::of(info.verb.as_str()), Object::Cluster),
            Route::Clusters(None) => (Verb::of(info.verb.as_str()), Object::Clusters),
            Route::HubObjects(objects) => (Verb::of(objects.verb.as_str()), Object::HubObjects(objects.hub)),
            Route::Discovery(document) => (Verb::Get, Object::Path(document.path())),
            Route::Health(_) => (Verb::Get, Object::Path("/healthz")),
            Route::Metrics => (Verb::Get, Object::Path("/metrics")),
            Route::Debug(debug) => (Verb::of_method(method), Object::Path(debug.path())),
        };
        // Like a kube-apiserver for `log`, `exec` and `proxy`, for every method.
        let verb = if is_long_running && verb != Verb::Watch { Verb::Connect } else { verb };
        Self { verb, object, is_long_running }
    }

    /// The kind of a request that could not be parsed.
    pub fn unknown(method: &Method) -> Self {
        Self { verb: Verb::of_method(method), ..Self::default() }
    }

    pub fn is_long_running(self) -> bool {
        self.is_long_running
    }
}

impl Verb {
    fn of(verb: &str) -> Self {
        match verb {
            "get" => Self::Get,
            "list" => Self::List,
            "watch" => Self::Watch,
            "create" => Self::Post,
            "update" => Self::Put,
            "patch" => Self::Patch,
            "delete" => Self::Delete,
            "deletecollection" => Self::DeleteCollection,
            "proxy" => Self::Connect,
            _ => Self::Other,
        }
    }

    fn of_method(method: &Method) -> Self {
        match *method {
            Method::GET | Method::HEAD => Self::Get,
            Method::POST => Self::Post,
            Method::PUT => Self::Put,
            Method::PATCH => Self::Patch,
            Method::DELETE => Self::Delete,
            _ => Self::Other,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::List => "LIST",
            Self::Watch => "WATCH",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::DeleteCollection => "DELETECOLLECTION",
            Self::Connect => "CONNECT",
            Self::Other => "other",
        }
    }
}

impl Object {
    /// Upstream's scope, and the subresource. For a path that names no resource, upstream's subresource is
    /// that path.
    const fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::Proxy(_) => ("resource", "proxy"),
            Self::Attach => ("resource", "attach"),
            Self::Cluster | Self::HubObjects(_) => ("resource", ""),
            Self::Clusters => ("cluster", ""),
            Self::Path(path) => ("", path),
            Self::Unknown => ("", ""),
        }
    }
}

/// Group, version and resource.
const fn labels_of(group: Origin) -> [&'static str; 3] {
    [group.grant_group(), group.grant_version(), group.grant_resource()]
}

impl EncodeLabelSet for Kind {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), Error> {
        let (scope, subresource) = self.object.labels();
        let [group, version, resource] = match self.object {
            Object::Path(_) | Object::Unknown => [""; 3],
            Object::Proxy(group) | Object::HubObjects(group) => labels_of(group),
            Object::Attach | Object::Cluster | Object::Clusters => labels_of(Origin::MemberCluster),
        };
        for label in [
            ("verb", self.verb.as_str()),
            ("group", group),
            ("version", version),
            ("resource", resource),
            ("subresource", subresource),
            ("scope", scope),
            ("component", "mc-sidecar"),
        ] {
            label.encode(encoder.encode_label())?;
        }
        Ok(())
    }
}
