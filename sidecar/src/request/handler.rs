//! Handles a request from top to bottom. The seat in the limits (`Permit`), the stored beginning
//! of the audit (`Begun`), the right (`Authorized`) and its revalidation (`Revalidated`) are
//! values. Each step returns the value that the next step takes, so no step can be left out.
//! `docs/explanation/request-path.md` describes the same path in prose.

use std::cell::LazyCell;
use std::future::ready;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};

use crate::connection::head_limit::TooLarge;
use crate::endpoints::clusters;
use crate::endpoints::clusters::Viewer;
use crate::head::audit_id::AuditId;
use crate::head::deadline;
use crate::head::request_info::{self, Health, HubObjects, RequestInfo, Route};
use crate::identity::peer::{Peer, Waiting};
use crate::limits::cutoff::Cutoff;
use crate::limits::in_flight::{self, Caller, Permit};
use crate::limits::upload::Upload;
use crate::observe::metrics;
use crate::observe::panics;
use crate::outbound::body::{self, Body, TEXT};
use crate::request::attach;
use crate::request::authorized::{Authorized, authorize};
use crate::request::cors;
use crate::request::debug;
use crate::request::error::Error;
use crate::request::fleet;
use crate::request::flow;
use crate::request::guarded::Guarded;
use crate::request::login;
use crate::request::proxy;
use crate::request::proxy::Draft;
use crate::request::record::Record;
use crate::request::redirect;
use crate::request::services::Services;
use crate::request::status;
use crate::request::upgrade;
use crate::telemetry::audit::Trail;
use crate::telemetry::spans::RequestSpan;

/// The context that arrives with a request.
#[derive(Debug, Default)]
pub struct Arrival {
    /// Set while the peer is not known.
    pub waiting: Option<Waiting>,
    /// Ends the answer even if the client reads nothing.
    pub cutoff: Arc<Cutoff>,
}

/// Answers one request. Every failure, including a panic, becomes a response or a broken stream.
pub async fn handle(
    services: Arc<Services>,
    peer: Arc<Peer>,
    arrival: Arrival,
    mut request: Request<Upload>,
) -> Response<Guarded> {
    let Arrival { waiting, cutoff } = arrival;
    let version = request.version();
    // Checked before the audit id is added to the headers.
    let head = peer.heads.check(request.headers());
    let audit_id = AuditId::of(request.headers_mut());
    if request.version() == Version::HTTP_2 && services.goaway.hits() {
        peer.retire();
    }
    let is_last =
        request.version() != Version::HTTP_2 && (services.readiness.is_draining() || peer.is_leaving());
    let listed = services.cutoffs.list(cutoff, Some(Instant::now() + services.request_timeout));
    let record = Record::begin(services.metrics.clone(), peer.clone(), listed, request.method(), audit_id);
    let is_forwarded = LazyCell::new(|| services.authenticator.is_front_proxy(&peer));
    if let Some(auditor) = &services.auditor {
        record.audited(Trail::begin(auditor.clone(), &request, peer.address.ip(), *is_forwarded));
    }
    if let Some(tracer) = &services.tracer {
        record.traced(RequestSpan::begin(tracer.clone(), &request, *is_forwarded));
    }
    let origin = services.cors.as_ref().and_then(|cors| cors.origin(request.headers()));
    let origin = origin.filter(|_| !*is_forwarded).map(Box::new);
    let asks_first = origin.is_some() && request.method() == Method::OPTIONS;
    let mut response = if asks_first {
        answered(&record, version, pin!(ready(Ok(cors::preflight())))).await
    } else {
        // Pinned here and not moved: the future is large, and each move would copy it.
        let responding = pin!(respond(&services, &peer, waiting, head, request, &record));
        answered(&record, version, responding).await
    };
    if let Some(origin) = origin {
        origin.tell(response.headers_mut());
    }
    // After a refused upgrade, the client may continue in the protocol that it requested.
    if (is_last || record.is_upgrade()) && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Turns the outcome into the response.
async fn answered(
    record: &Record,
    version: Version,
    responding: Pin<&mut impl Future<Output = Result<Response<Body>, Error>>>,
) -> Response<Guarded> {
    let response = panics::caught(responding).await.unwrap_or_else(|panicked| {
        record.panicked();
        Err(panicked.into())
    });
    let mut response = response.unwrap_or_else(|error| status::response(&error, record));
    record.audit_id().tell(response.headers_mut());
    record.answered(response.status());
    response.map(|body| Guarded::new(body, record.clone(), version))
}

async fn respond(
    services: &Services,
    peer: &Peer,
    waiting: Option<Waiting>,
    head: Result<(), TooLarge>,
    mut request: Request<Upload>,
    record: &Record,
) -> Result<Response<Body>, Error> {
    head?;
    let (mut info, mut view) = fleet::understood(services, &mut request, record)?;
    record.understood(&info);
    if !services.documents.load().has_group(info.group()) {
        return Err(not_found(&request));
    }
    if let Some(answer) = public(services, &info.route, request.headers()) {
        return Ok(answer);
    }
    let long_running = info.is_long_running;
    let due = record.hold().due_within(longest_duration(services, &info, request.uri())?);
    let caller = login::authenticate(services, peer, waiting, &mut request, record).await?;
    let by = caller.by;
    // The authenticated user is admitted before any review at the host, and impersonation does not
    // change this.
    let user = flow::caller(&services.limits, &caller.identity);
    request.body().charge(user);
    let permit = match due {
        Some(due) => record.hold().queue(services.limits.admit(info.verb.is_read(), user, due)).await?,
        None => admit_long_running(services, &info, user)?,
    };
    if long_running {
        record.hold().charge(user, info.cluster());
    }
    let begun = record.store_beginning(permit, caller, due).await?;
    if matches!(info.route, Route::Fleet(_)) {
        Box::pin(fleet::find_member(services, &mut request, &mut info, &mut view, user, record)).await?;
    }
    let authorized = authorize(services, begun, user, &info, request.headers_mut(), record).await?;

    let (group, name, path) = match &info.route {
        Route::Proxy(group, name, path) => (*group, name, path),
        Route::Fleet(route) => {
            let answer = fleet::respond(services, route, request, authorized, (user, due), record);
            return Box::pin(answer).await;
        }
        Route::Clusters(_) => {
            return Box::pin(clusters(services, &info, request, authorized, (user, due), record)).await;
        }
        Route::Attach(name) => {
            return attach::respond(services, name, request, info.upgrade, authorized, record);
        }
        Route::HubObjects(objects) => {
            let answer = hub_objects(services, objects, request, authorized, (user, due), record);
            return Box::pin(answer).await;
        }
        Route::Debug(debug) => {
            return Ok(Box::pin(debug::respond(services, *debug, authorized, request)).await);
        }
        Route::Metrics | Route::Discovery(_) | Route::Health(_) => return Ok(self::metrics(services)),
    };
    let cluster = services.inventory.find_in(group, authorized.only_for(), name)?;
    record.is_to(&cluster.requests);
    if info.upgrade.is_none() {
        record.hold().admitted_by_member(record.hold().queue(cluster.admit(user, due)).await?);
    }
    let downstream = info.upgrade.map(|_| upgrade::downstream(&mut request));
    let revalidated = authorized.revalidated(services, due, Some(&cluster.gone), record);
    let rules = &services.rules;
    let renamed = fleet::renamed_body(services, &mut view, &mut request, user).await?;
    let draft = Draft::new(request, path, info.upgrade, user, revalidated, rules, record.to_member());
    let draft = draft.with_document(renamed);
    let inventory = services.inventory.as_ref();
    let mut response = match (info.upgrade, downstream) {
        (Some(protocol), Some(downstream)) => {
            let (tunnels, held) = (&services.tunnels, record.clone());
            let forward = upgrade::forward(inventory, &cluster, draft, protocol, downstream, tunnels, held);
            Box::pin(record.hold().unless_over(forward)).await?
        }
        _ if long_running => {
            let forward = proxy::forward(inventory, &cluster, draft);
            Box::pin(record.hold().unless_over(forward)).await?
        }
        _ => proxy::forward(inventory, &cluster, draft).await?,
    };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        redirect::clean(&mut response, group, name, path, by)?;
    }
    fleet::renamed_answer(services, view, response, user, record)
}

/// Admits a request without a natural end, or refuses it at once.
fn admit_long_running(
    services: &Services,
    info: &RequestInfo,
    user: Caller,
) -> Result<Permit, in_flight::Error> {
    match info.route {
        Route::Attach(_) => services.limits.admit_agent(user),
        _ if info.upgrade.is_some() => services.limits.admit_tunnel(user),
        _ => services.limits.admit_watch(user),
    }
}

/// Answers from the read-only view of the inventory.
async fn clusters(
    services: &Services,
    info: &RequestInfo,
    request: Request<Upload>,
    authorized: Authorized,
    (user, due): (Caller, Option<Instant>),
    record: &Record,
) -> Result<Response<Body>, Error> {
    let Route::Clusters(name) = &info.route else { return Err(not_found(&request)) };
    let identity = authorized.revalidated(services, due, None, record).into_identity();
    let viewer = Viewer { authorizer: services.authorizer.clone(), identity, caller: user };
    let (parts, body) = request.into_parts();
    record.hold().unread(body);
    Ok(clusters::respond(&services.registry, viewer, info.verb, name.as_ref(), &parts).await?)
}

/// Passes a request on to the hub's own server.
async fn hub_objects(
    services: &Services,
    objects: &HubObjects,
    request: Request<Upload>,
    authorized: Authorized,
    (user, due): (Caller, Option<Instant>),
    record: &Record,
) -> Result<Response<Body>, Error> {
    let server = services.hub_server.as_ref().ok_or_else(|| not_found(&request))?;
    record.hold().admitted_by_member(record.hold().queue(server.admit(user, due)).await?);
    let revalidated = authorized.revalidated(services, due, None, record);
    let answer = async { Ok(server.respond(objects, request, revalidated.identity(), due).await?) };
    record.hold().unless_over(answer).await
}

/// The answers that need neither the host nor a member nor a login.
fn public(services: &Services, route: &Route, headers: &HeaderMap) -> Option<Response<Body>> {
    match route {
        Route::Discovery(document) => Some(services.documents.load().respond(*document, headers)),
        Route::Health(health) => Some(self::health(services, *health)),
        Route::Metrics
        | Route::Debug(_)
        | Route::Clusters(_)
        | Route::Proxy(..)
        | Route::Fleet(_)
        | Route::Attach(_)
        | Route::HubObjects(_) => None,
    }
}

/// The longest duration of a request; a long-running one has none.
fn longest_duration(services: &Services, info: &RequestInfo, uri: &Uri) -> Result<Option<Duration>, Error> {
    match info.is_long_running {
        // The cutoff would soon end it; another replica can take it.
        true if services.readiness.is_closing() => Err(Error::Closing),
        true => Ok(None),
        false => Ok(Some(deadline::within(services.request_timeout, uri.query())?)),
    }
}

fn not_found(request: &Request<Upload>) -> Error {
    request_info::Error::NotFound(request.uri().path().to_owned()).into()
}

pub(crate) fn health(services: &Services, health: Health) -> Response<Body> {
    let failed: Vec<&str> = match health {
        Health::Live => Vec::new(),
        Health::Ready => {
            services.readiness.checks().filter(|check| !check.has_passed).map(|check| check.name).collect()
        }
    };
    let (status, text) = match failed.is_empty() {
        true => (StatusCode::OK, "ok".to_owned()),
        false => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}", failed.join(", "))),
    };
    body::document(status, TEXT, text)
}

pub(crate) fn metrics(services: &Services) -> Response<Body> {
    body::document(StatusCode::OK, metrics::CONTENT_TYPE, metrics::text(&services.metric_registry))
}

#[cfg(test)]
pub(crate) mod tests;
