//! The labels of a request: its verb, and the API of the sidecar that it addresses. Names in a member's path
//! are chosen by callers, so they are never labels.

use std::fmt::Error;

use http::Method;
use kubectl_mc_api::Origin;
use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder};

use crate::head::request_info::{RequestInfo, Route, Verb};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// [`Verb::Proxy`] for every long-running request except a watch.
    verb: Verb,
    object: Object,
    /// Determined by the labels: otherwise two kinds with equal labels would be one series twice.
    is_long_running: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Object {
    Proxy(Origin),
    Attach,
    Cluster,
    Clusters,
    HubObjects(Origin),
    Path(&'static str),
    Unknown,
}

impl Kind {
    /// The kind of a parsed request.
    pub fn of(info: &RequestInfo) -> Self {
        let object = match &info.route {
            Route::Proxy(group, ..) => Object::Proxy(*group),
            Route::Attach(_) => Object::Attach,
            Route::Clusters(Some(_)) => Object::Cluster,
            Route::Clusters(None) => Object::Clusters,
            Route::HubObjects(objects) => Object::HubObjects(objects.hub),
            Route::Discovery(document) => Object::Path(document.path()),
            Route::Health(_) => Object::Path("/healthz"),
            Route::Metrics => Object::Path("/metrics"),
            Route::Debug(debug) => Object::Path(debug.path()),
        };
        // Like a kube-apiserver for `log`, `exec` and `proxy`, for every method.
        let is_watch = info.member_verb == Verb::Watch && info.upgrade.is_none();
        let verb = if info.is_long_running && !is_watch { Verb::Proxy } else { info.member_verb };
        Self { verb, object, is_long_running: info.is_long_running }
    }

    /// The kind of a request that could not be parsed.
    pub fn unknown(method: &Method) -> Self {
        Self { verb: Verb::of_method(method), object: Object::Unknown, is_long_running: false }
    }

    pub fn is_long_running(self) -> bool {
        self.is_long_running
    }
}

/// The verb in upstream's metrics: an HTTP method, except for some reads (apiserver: `CleanVerb`).
const fn label(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "GET",
        Verb::List => "LIST",
        Verb::Watch => "WATCH",
        Verb::Create => "POST",
        Verb::Update => "PUT",
        Verb::Patch => "PATCH",
        Verb::Delete => "DELETE",
        Verb::DeleteCollection => "DELETECOLLECTION",
        Verb::Proxy => "CONNECT",
        Verb::None => "other",
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
            ("verb", label(self.verb)),
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
