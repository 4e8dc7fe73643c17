//! Parses what a request asks for, from its head alone (apiserver: `endpoints/request/requestinfo.go`).
//!
//! Routing, authorization and forwarding share this one strict parse, so they cannot disagree.
//! Requests arrive in two ways: the host's aggregator sends a decoded path, and direct callers send
//! a raw one. A path is refused if the part that is parsed here could be read differently in these
//! two forms.

use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Version, header};
use kubectl_mc_api::{ClusterName, Origin, path};

use crate::head::field_selector;
use crate::head::protocol::Protocol;

mod error;
pub mod fleet;
pub mod fleet_query;
mod hub_objects;
mod member_path;
mod verb;

pub use error::Error;
pub use fleet::{FleetRoute, Question};
pub use hub_objects::HubObjects;
pub use member_path::{MemberPath, RequestedObject};
pub use verb::Verb;

/// What a request asks for.
#[derive(Debug)]
pub struct RequestInfo {
    pub route: Route,
    pub verb: Verb,
    /// The one cluster that a list or a watch selects. A right can name this cluster.
    pub selected: Option<ClusterName>,
    /// The protocol to switch to, if the request asks for an upgrade.
    pub upgrade: Option<Protocol>,
    /// The verb that a member's kube-apiserver sees in a request to it; `verb` for all other requests.
    pub member_verb: Verb,
    /// Whether the request has no natural end (apiserver: `filters/longrunning.go`, by the inner path).
    pub is_long_running: bool,
}

/// Where a request goes.
#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    /// Static discovery documents, answered before authentication: the host's discovery, and with it the
    /// deletion of namespaces, must not wait for anything.
    Discovery(Document),
    /// `/livez`, `/readyz` and `/healthz`.
    Health(Health),
    /// `/metrics`.
    Metrics,
    /// Below `/debug/`, for callers that the host authorizes for the path.
    Debug(Debug),
    /// The read-only view of the inventory; `None` is the collection.
    Clusters(Option<ClusterName>),
    /// A member's API, in the API group that belongs to an inventory. A path below `selfreviews` is limited
    /// to reviews of the caller. The host's rules let everyone use it (ClusterRole
    /// `kubectl-mc-self-reviews`), so the right is the same as below `proxy`.
    Proxy(Origin, ClusterName, MemberPath),
    /// The tunnel of a member's agent.
    Attach(ClusterName),
    /// The fleet view, by a path that names no member.
    Fleet(Box<FleetRoute>),
    /// Objects in the API group of a hub, which the hub's own server serves.
    HubObjects(Box<HubObjects>),
}

/// The static documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// `/apis`
    Groups,
    /// `/apis/<group>`
    Group(Origin),
    /// `/apis/<group>/<version>`
    Resources(Origin),
    /// `/openapi/v2`
    OpenApiV2,
    /// `/openapi/v3`
    OpenApiV3Index,
    /// `/openapi/v3/apis/<group>/<version>`
    OpenApiV3(Origin),
    /// `/version`
    Version,
}

impl Document {
    /// The path, without the group.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Groups | Self::Group(_) | Self::Resources(_) => "/apis",
            Self::OpenApiV2 => "/openapi/v2",
            Self::OpenApiV3Index | Self::OpenApiV3(_) => "/openapi/v3",
            Self::Version => "/version",
        }
    }
}

/// The health checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Live,
    Ready,
}

/// The state of the sidecar, and its settings that an operator can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Debug {
    /// `/debug/state`
    State,
    /// `/debug/flags/v`: the level of the log.
    LogLevel,
}

impl Debug {
    pub const fn path(self) -> &'static str {
        match self {
            Self::State => "/debug/state",
            Self::LogLevel => "/debug/flags/v",
        }
    }
}

impl RequestInfo {
    /// Parses a request's head.
    pub fn parse<B>(request: &Request<B>) -> Result<Self, Error> {
        check(request)?;
        let uri = request.uri();
        Self::routed(request, Route::parse(uri.path(), request.method(), uri.query())?)
    }

    /// Parses a request's head where the fleet view is served. A request to one member of the view gets the target of
    /// the same request to that member, and the member is returned.
    pub fn parse_with_fleet<B>(request: &mut Request<B>) -> Result<(Self, Option<ClusterName>), Error> {
        let Some(rest) = fleet::below(request.uri().path()) else { return Ok((Self::parse(request)?, None)) };
        check(request)?;
        match fleet::route(rest, request.method(), request.uri().query())? {
            fleet::Target::Fleet(route) => Ok((Self::routed(request, Route::Fleet(Box::new(route)))?, None)),
            fleet::Target::Member(member, target) => Ok((Self::parse_at(request, target)?, Some(member))),
        }
    }

    /// Parses a request to the fleet view whose member is known from its body as the one to that member.
    pub fn parse_for_member<B>(
        request: &mut Request<B>,
        member: &ClusterName,
        path: &MemberPath,
    ) -> Result<Self, Error> {
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        let target = format!("{}{}{query}", path::member_root(member), path.as_str());
        let target = target.try_into().map_err(|_| Error::MemberPath("cannot be sent to a member"))?;
        Self::parse_at(request, target)
    }

    fn parse_at<B>(request: &mut Request<B>, target: PathAndQuery) -> Result<Self, Error> {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.path_and_query = Some(target);
        *request.uri_mut() = parts.try_into().map_err(|_| Error::MemberPath("cannot be sent to a member"))?;
        Self::parse(request)
    }

    fn routed<B>(request: &Request<B>, route: Route) -> Result<Self, Error> {
        let upgrade = match &route {
            Route::Proxy(..) | Route::Attach(_) => {
                Protocol::requested(request.version(), request.method(), request.headers())?
            }
            _ => None,
        };
        let verb = match &route {
            Route::Proxy(..) | Route::Attach(_) => Verb::of_method(request.method()),
            Route::HubObjects(objects) => objects.verb,
            Route::Fleet(_) => Verb::of_method(request.method()),
            Route::Clusters(name) => Verb::of_read(request.method(), name.is_some(), request.uri().query())
                .ok_or_else(|| Error::Method(request.method().clone()))?,
            Route::Debug(Debug::LogLevel) if *request.method() == Method::PUT => Verb::Update,
            _ if matches!(*request.method(), Method::GET | Method::HEAD) => Verb::Get,
            _ => return Err(Error::Method(request.method().clone())),
        };
        let selected = match route {
            Route::Clusters(None) => field_selector::selected(request.uri().query()),
            _ => None,
        };
        let (member_verb, is_long_running) = match &route {
            Route::Proxy(_, _, path) => {
                let (verb, lasts) = path.resolve(request.method(), request.uri().query());
                (verb, lasts || upgrade.is_some())
            }
            Route::Fleet(fleet) => match fleet.question {
                Question::List => (Verb::List, false),
                Question::Watch => (Verb::Watch, true),
                Question::Object | Question::Document | Question::Body => (verb, false),
            },
            // A kube-apiserver treats any subresource of this name as long-running.
            Route::Attach(_) => (verb, true),
            _ => (verb, verb == Verb::Watch),
        };
        Ok(Self { route, verb, selected, upgrade, member_verb, is_long_running })
    }

    /// The verb of the right that the request needs. A self-review at the member is a POST that changes
    /// nothing, so callers who may read a member may ask it for their other rights.
    pub fn authorized_verb(&self) -> Verb {
        match &self.route {
            Route::Proxy(_, _, path)
                if self.verb == Verb::Create && self.upgrade.is_none() && path.is_self_review() =>
            {
                Verb::Get
            }
            Route::Fleet(fleet) if self.verb == Verb::Create && fleet.path.is_self_review() => Verb::Get,
            _ => self.verb,
        }
    }

    /// The inventory whose API group the request addresses.
    pub fn group(&self) -> Origin {
        match self.route {
            Route::Proxy(group, ..)
            | Route::Discovery(
                Document::Group(group) | Document::Resources(group) | Document::OpenApiV3(group),
            ) => group,
            Route::HubObjects(ref objects) => objects.hub,
            _ => Origin::MemberCluster,
        }
    }

    /// The member that the request is for.
    pub fn cluster(&self) -> Option<&ClusterName> {
        match &self.route {
            Route::Proxy(_, cluster, _) | Route::Attach(cluster) => Some(cluster),
            _ => None,
        }
    }

    /// Whether this is one of kubectl's discovery calls to a member. kubectl hides a JSON Status that answers
    /// such a call, so errors of the sidecar are plain text there.
    pub fn is_member_discovery(&self) -> bool {
        match &self.route {
            Route::Proxy(_, _, path) => path.is_discovery(),
            Route::Fleet(fleet) => fleet.question == Question::Document,
            _ => false,
        }
    }
}

impl Route {
    fn parse(target: &str, method: &Method, query: Option<&str>) -> Result<Self, Error> {
        // A reader that cleans paths would see another path than the sidecar, so such paths are refused.
        let Some(rest) = target.strip_prefix(path::CLUSTERS_PATH) else {
            let route = Self::fixed(target).map(Ok).or_else(|| Self::of_hub(target));
            let route = route.or_else(|| HubObjects::of(target, method, query));
            return route.unwrap_or_else(|| Err(Error::NotFound(target.to_owned())));
        };
        let Some(rest) = rest.strip_prefix('/') else {
            let collection = rest.is_empty();
            return if collection {
                Ok(Self::Clusters(None))
            } else {
                Err(Error::NotFound(target.to_owned()))
            };
        };
        if rest.is_empty() {
            return Ok(Self::Clusters(None));
        }
        let (name, rest) = rest.split_once('/').map_or((rest, None), |(name, rest)| (name, Some(rest)));
        let name: ClusterName = name.parse()?;
        match rest {
            None | Some("") => Ok(Self::Clusters(Some(name))),
            Some("proxy") => Ok(Self::Proxy(Origin::MemberCluster, name, MemberPath::root())),
            Some("attach") => Ok(Self::Attach(name)),
            Some(rest) => {
                let not_found = || Error::NotFound(target.to_owned());
                if let Some(inner) = rest.strip_prefix("proxy/") {
                    return Ok(Self::Proxy(Origin::MemberCluster, name, MemberPath::parse(inner)?));
                }
                let inner = rest.strip_prefix(path::SELF_REVIEWS).and_then(|rest| rest.strip_prefix('/'));
                let path = MemberPath::parse(inner.ok_or_else(not_found)?)?;
                let is_review = path.is_below_self_reviews();
                let route = Self::Proxy(Origin::MemberCluster, name, path);
                is_review.then_some(route).ok_or_else(not_found)
            }
        }
    }

    /// A member's API in the API group of a hub.
    fn of_hub(target: &str) -> Option<Result<Self, Error>> {
        let hubs = Origin::ALL.into_iter().filter(|origin| origin.is_hub());
        let (hub, rest) = hubs
            .filter_map(|hub| Some((hub, target.strip_prefix(hub.collection())?.strip_prefix('/')?)))
            .next()?;
        let (name, rest) = rest.split_once('/')?;
        let path = match rest {
            "proxy" => Ok(MemberPath::root()),
            rest => MemberPath::parse(rest.strip_prefix("proxy/")?),
        };
        Some(name.parse().map_err(Error::from).and_then(|name| Ok(Self::Proxy(hub, name, path?))))
    }

    fn fixed(target: &str) -> Option<Self> {
        Some(match target {
            "/apis" | "/apis/" => Self::Discovery(Document::Groups),
            "/openapi/v2" => Self::Discovery(Document::OpenApiV2),
            "/openapi/v3" | "/openapi/v3/" => Self::Discovery(Document::OpenApiV3Index),
            "/version" | "/version/" => Self::Discovery(Document::Version),
            "/livez" | "/healthz" => Self::Health(Health::Live),
            "/readyz" => Self::Health(Health::Ready),
            "/metrics" => Self::Metrics,
            "/debug/state" => Self::Debug(Debug::State),
            "/debug/flags/v" => Self::Debug(Debug::LogLevel),
            _ => {
                let rest = target.strip_prefix("/openapi/v3");
                let (is_openapi, rest) = (rest.is_some(), rest.unwrap_or(target));
                let rest = rest.strip_prefix("/apis/")?;
                let (group, version) = rest.split_once('/').unwrap_or((rest, ""));
                let group = Origin::of_group(group)?;
                match version.trim_end_matches('/') {
                    "" if !is_openapi => Self::Discovery(Document::Group(group)),
                    version if version == group.grant_version() && is_openapi => {
                        Self::Discovery(Document::OpenApiV3(group))
                    }
                    version if version == group.grant_version() => {
                        Self::Discovery(Document::Resources(group))
                    }
                    _ => return None,
                }
            }
        })
    }
}

/// Refuses a head that two readers could understand differently.
fn check<B>(request: &Request<B>) -> Result<(), Error> {
    if !METHODS.contains(request.method()) {
        return Err(Error::Method(request.method().clone()));
    }
    framing(request.version(), request.headers())?;
    if request.version() < Version::HTTP_2 && request.uri().authority().is_some() {
        return Err(Error::Framing("the target names a server, as to a forward proxy"));
    }
    if request.headers().len() > MAX_HEADERS {
        return Err(Error::Framing("there are too many headers"));
    }
    if !request.uri().path().is_ascii() {
        return Err(Error::Framing("the target has characters that must be escaped"));
    }
    Ok(())
}

/// A message must have exactly one length, or two readers may disagree about its end (RFC 9112, 6.3).
fn framing(version: Version, headers: &HeaderMap) -> Result<(), Error> {
    let lengths = headers.get_all(header::CONTENT_LENGTH).iter().count();
    let codings: Vec<_> = headers.get_all(header::TRANSFER_ENCODING).iter().collect();
    let chunked = match codings.as_slice() {
        [] => false,
        [coding] if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => true,
        _ => return Err(Error::Framing("the only transfer coding that is accepted is chunked")),
    };
    if lengths > 1 || (lengths == 1 && chunked) {
        return Err(Error::Framing("a request has one Content-Length or is chunked, not both"));
    }
    let hosts = headers.get_all(header::HOST).iter().count();
    if hosts > 1 || (hosts == 0 && version == Version::HTTP_11) {
        return Err(Error::Framing("a request has one Host"));
    }
    Ok(())
}

/// One line for each group and extra value of a caller. HTTP/2 itself limits only their bytes.
pub(crate) const MAX_HEADERS: usize = 4096;

/// The methods of the Kubernetes API. CONNECT and TRACE concern connections, not objects; a method in lower
/// case is unknown (RFC 9110, 9.1).
const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

#[cfg(test)]
mod tests;
