//! The whole request path in one process: a real client connection, a fake host with fixed answers to
//! reviews, and no members.

use std::sync::atomic::Ordering;

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use http::HeaderName;
use http_body_util::Full;
use kubectl_mc_api::Origin;
use serde_json::{Value, json};

use super::*;
use crate::connection::goaway::Goaway;
use crate::endpoints::clusters::Registry;
use crate::endpoints::discovery::Documents;
use crate::host::fake::host;
use crate::identity::authentication::token_review::TokenReviews;
use crate::identity::authentication::{self, Authenticator};
use crate::identity::authorization::always_allowed::AlwaysAllowed;
use crate::identity::authorization::{self, Authorizer};
use crate::identity::impersonation::member;
use crate::identity::trust::tests::{FrontProxy, front_proxy};
use crate::limits::cutoff::Cutoffs;
use crate::limits::in_flight::{Level, Limits, Size};
use crate::members::inventory::Inventory;
use crate::members::inventory::renewal::Renewals;
use crate::members::on_demand_access::OnDemandAccess;
use crate::observe::readiness::Readiness;
use crate::outbound::tunnel::accounts::Accounts;
use crate::outbound::tunnel::registry::AgentTunnels;
use crate::request::cors::Cors;
use crate::request::fleet::view::{self, Fleet};
use crate::request::tunnels::Tunnels;

mod cors;
mod fleet_view;

/// Settings that differ between tests.
#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    anonymous_auth: bool,
    goaway_chance: f64,
    /// Pages of `https://ui.example` are allowed.
    cors: bool,
    /// Every path is allowed without asking the host.
    always_allowed: bool,
    /// The hub whose group is served.
    hub: Option<Origin>,
    /// The fleet view is served.
    fleet: bool,
}

/// The token `jane` is jane's and `bob` is bob's; `star` may use the name `*` only. The host fails to review the token `broken`. Everyone is
/// allowed everything, except bob.
fn answer(review: &Value) -> (u16, Value) {
    let status = match review["spec"]["token"].as_str() {
        Some(name @ ("jane" | "bob" | "star")) => json!({"authenticated": true, "user": {"username": name}}),
        Some("broken") => return (400, json!({"kind": "Status", "status": "Failure", "code": 400})),
        Some(_) => json!({"authenticated": false}),
        None => {
            let (user, name) = (&review["spec"]["user"], &review["spec"]["resourceAttributes"]["name"]);
            json!({"allowed": user != "bob" && (user != "star" || name == "*"), "reason": user})
        }
    };
    (
        201,
        json!({"kind": review["kind"], "apiVersion": review["apiVersion"], "metadata": {}, "spec": {}, "status": status}),
    )
}

pub(super) fn app(flags: Flags, front_proxy: &FrontProxy) -> (Arc<Services>, impl Fn() -> usize + use<>) {
    let (client, asked) = host(answer);
    let mut metrics = crate::observe::metrics::registry();
    let trust = Arc::new(ArcSwap::from_pointee(front_proxy.trust()));
    let tokens = TokenReviews::new(client.clone(), Vec::new()).unwrap();
    let (renewals, _) = Renewals::new(client.clone(), "ns", &Default::default());
    let size = Size::new(10, 0);
    let patterns = flags.always_allowed.then(|| "*".to_owned());
    let always_allowed = AlwaysAllowed::parse(patterns.as_slice()).unwrap();
    let authorization = authorization::Config { always_allowed, ..authorization::Config::default() };
    let failures = authentication::Metrics::register(&mut metrics);
    let services = Services {
        agent_tunnels: AgentTunnels::none(),
        agent_accounts: Accounts::new(client.clone(), tokio::sync::watch::channel(None).1),
        cutoffs: Cutoffs::new(),
        direct_uploads: Arc::default(),
        auditor: None,
        places: Arc::default(),
        log_level: Default::default(),
        tracer: None,
        authenticator: Authenticator::new(trust, tokens, flags.anonymous_auth, failures),
        authorizer: Arc::new(Authorizer::with(client.clone(), authorization)),
        limits: Arc::new(Limits::new(size, size, 0, 0, 0)),
        inventory: Arc::new(Inventory::new(renewals, OnDemandAccess::new(client, "ns"))),
        registry: Registry::new().0,
        documents: Arc::new(ArcSwap::from_pointee(Documents::new(flags.hub))),
        hub_server: None,
        rules: member::Rules::default(),
        fleet: flags.fleet.then(|| Fleet::new(view::Config::default(), member::Rules::default())),
        request_timeout: std::time::Duration::from_secs(60),
        tunnels: Tunnels::new(&mut metrics),
        metrics: Arc::default(),
        metric_registry: metrics,
        readiness: Readiness::default(),
        goaway: Goaway::new(flags.goaway_chance).unwrap(),
        cors: Cors::new(flags.cors.then(|| r"^https://ui\.example$".to_owned()).as_slice()).unwrap(),
    };
    (Arc::new(services), move || asked.load(Ordering::SeqCst))
}

/// Services for a test that needs them but sends no requests.
pub(crate) fn any_app() -> Arc<Services> {
    app(Flags::default(), &front_proxy()).0
}

pub(super) fn stranger() -> Arc<Peer> {
    Arc::new(Peer::new(([127, 0, 0, 1], 1).into(), None, None))
}

/// Sends one request over a separate connection.
async fn send(
    services: &Arc<Services>,
    peer: &Arc<Peer>,
    version: Version,
    path: &str,
    header: Option<(&'static str, &str)>,
) -> (StatusCode, HeaderMap, String) {
    send_as(services, peer, version, Method::GET, path, header).await
}

pub(super) async fn send_as(
    services: &Arc<Services>,
    peer: &Arc<Peer>,
    version: Version,
    method: Method,
    path: &str,
    header: Option<(&'static str, &str)>,
) -> (StatusCode, HeaderMap, String) {
    exchange(services, peer, version, method, path, header.as_slice()).await
}

/// Sends a GET with several headers.
async fn send_with(
    services: &Arc<Services>,
    peer: &Arc<Peer>,
    version: Version,
    path: &str,
    headers: &[(&'static str, &str)],
) -> (StatusCode, HeaderMap, String) {
    exchange(services, peer, version, Method::GET, path, headers).await
}

async fn exchange(
    services: &Arc<Services>,
    peer: &Arc<Peer>,
    version: Version,
    method: Method,
    path: &str,
    headers: &[(&'static str, &str)],
) -> (StatusCode, HeaderMap, String) {
    let mut request = request(path).map(|_| Full::default());
    *request.method_mut() = method;
    for (name, value) in headers {
        request.headers_mut().insert(HeaderName::from_static(name), value.parse().unwrap());
    }
    send_request(services, peer, version, request).await
}

pub(super) async fn send_request(
    services: &Arc<Services>,
    peer: &Arc<Peer>,
    version: Version,
    mut request: Request<Full<Bytes>>,
) -> (StatusCode, HeaderMap, String) {
    let (client, server, ..) = connection();
    let (services, peer) = (services.clone(), peer.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let request = request.map(|body| Upload::new(body, None, &Arc::default()));
        let (services, peer) = (services.clone(), peer.clone());
        async move { Ok::<_, Infallible>(handle(services, peer, Arrival::default(), request).await) }
    });
    let response = if version == Version::HTTP_2 {
        tokio::spawn(conn::http2::Builder::new(TokioExecutor::new()).serve_connection(server, service));
        let (mut sender, client) = http2::handshake(TokioExecutor::new(), client).await.unwrap();
        tokio::spawn(client);
        sender.send_request(request).await.unwrap()
    } else {
        *request.uri_mut() = request.uri().path_and_query().unwrap().as_str().parse().unwrap();
        tokio::spawn(conn::http1::Builder::new().serve_connection(server, service));
        let (mut sender, client) = http1::handshake(client).await.unwrap();
        tokio::spawn(client);
        sender.send_request(request).await.unwrap()
    };
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
}

fn retires(peer: &Peer) -> bool {
    peer.retired().now_or_never().is_some()
}

pub(super) const PODS: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/pods";
pub(super) const JANE: Option<(&str, &str)> = Some(("authorization", "Bearer jane"));
pub(super) const BOB: Option<(&str, &str)> = Some(("authorization", "Bearer bob"));
pub(super) const MALLORY: Option<(&str, &str)> = Some(("authorization", "Bearer mallory"));

#[tokio::test]
async fn refused_login_ends_only_an_http2_connection() {
    let (services, _) = app(Flags::default(), &front_proxy());
    for (version, header, code, ends) in [
        (Version::HTTP_2, None, 401, true),
        (Version::HTTP_2, MALLORY, 401, true),
        (Version::HTTP_11, MALLORY, 401, false),
        // Authenticated; the answer is 503 because there are no members yet.
        (Version::HTTP_2, JANE, 503, false),
        // A failure of the host is not the caller's fault.
        (Version::HTTP_2, Some(("authorization", "Bearer broken")), 503, false),
    ] {
        let peer = stranger();
        let (status, _, body) = send(&services, &peer, version, PODS, header).await;
        assert_eq!(status, code, "{version:?} {header:?}: {body}");
        assert_eq!(retires(&peer), ends, "{version:?} {header:?}");
        assert_eq!(peer.is_known(), header == JANE);
    }
}

#[tokio::test]
async fn front_proxy_connection_survives_refused_logins() {
    let front_proxy = front_proxy();
    let (services, _) = app(Flags::default(), &front_proxy);
    let peer = Arc::new(front_proxy.peer());
    let (status, ..) = send(&services, &peer, Version::HTTP_2, PODS, None).await;
    assert_eq!(status, 401);
    let anonymous = Some(("x-remote-user", "system:anonymous"));
    let (status, ..) = send(&services, &peer, Version::HTTP_2, PODS, anonymous).await;
    assert_eq!(status, 503, "the host let them in");
    assert!(!retires(&peer) && peer.is_known());
}

#[tokio::test]
async fn failed_login_is_counted_by_credential_kind() {
    let (services, _) = app(Flags::default(), &front_proxy());
    for header in [None, MALLORY, MALLORY, Some(("authorization", "Basic amFuZTpqYW5l")), JANE] {
        send(&services, &stranger(), Version::HTTP_11, PODS, header).await;
    }
    let text = crate::observe::metrics::text(&services.metric_registry);
    for (attempted, count) in [("", 1), ("bearer", 2), ("basic", 1)] {
        let line = format!("mc_sidecar_authentication_failures_total{{attempted=\"{attempted}\"}} {count}\n");
        assert!(text.contains(&line), "{line} {text}");
    }
}

#[tokio::test]
async fn anonymous_needs_the_flag_and_no_invalid_credential() {
    let (services, asked) = app(Flags { anonymous_auth: true, ..Flags::default() }, &front_proxy());
    let peer = stranger();
    let (status, ..) = send(&services, &peer, Version::HTTP_2, PODS, None).await;
    // The host allowed it (RBAC decides); the answer is 503 because there are no members yet.
    assert_eq!((status, asked()), (StatusCode::SERVICE_UNAVAILABLE, 1));
    assert!(retires(&peer) && !peer.is_known(), "nobody is known by that");
    let (status, ..) = send(&services, &stranger(), Version::HTTP_11, PODS, MALLORY).await;
    assert_eq!(status, 401, "a wrong token is not none");
    let basic = Some(("authorization", "Basic amFuZTpqYW5l"));
    let (status, ..) = send(&services, &stranger(), Version::HTTP_11, PODS, basic).await;
    assert_eq!(status, 503, "what nobody here understands is none, as upstream");
}

#[tokio::test]
async fn invalid_timeout_is_refused_before_any_review() {
    let (services, asked) = app(Flags::default(), &front_proxy());
    let path = format!("{PODS}?timeout=soon");
    let (status, _, body) = send(&services, &stranger(), Version::HTTP_11, &path, JANE).await;
    assert_eq!((status, asked()), (StatusCode::BAD_REQUEST, 0), "{body}");
    let (status, ..) = send(&services, &stranger(), Version::HTTP_11, &format!("{path}&watch=1"), JANE).await;
    assert_eq!(status, 503, "a watch has no deadline, and its parameter is the member's to read");
}

#[tokio::test]
async fn goaway_chance_retires_http2_connections() {
    let flags = Flags { goaway_chance: 0.02, ..Flags::default() };
    let (services, _) = app(flags, &front_proxy());
    let (peer, mut sent) = (stranger(), 0);
    while !retires(&peer) {
        let (status, ..) = send(&services, &peer, Version::HTTP_2, "/livez", None).await;
        assert_eq!(status, 200, "the request itself is answered");
        sent += 1;
        assert!(sent < 5_000, "a chance of 2 % does not come");
    }
    let (never, _) = self::app(Flags::default(), &front_proxy());
    for _ in 0..50 {
        send(&never, &peer, Version::HTTP_2, "/livez", None).await;
    }
    assert!(!retires(&peer), "by default nobody is");
}

#[tokio::test]
async fn shutdown_refuses_new_long_running_requests() {
    let (services, asked) = app(Flags::default(), &front_proxy());
    let watch = format!("{PODS}?watch=1");
    let closing = |body: &str| body.contains("shutting down");
    services.readiness.drain();
    let (.., body) = send(&services, &stranger(), Version::HTTP_2, &watch, JANE).await;
    assert!(!closing(&body), "as long as new connections come, everything is served: {body}");
    services.readiness.close();
    let before = asked();
    let (status, headers, body) = send(&services, &stranger(), Version::HTTP_2, &watch, JANE).await;
    assert_eq!((status.as_u16(), &headers["retry-after"]), (503, &"1".parse().unwrap()));
    assert!(closing(&body) && asked() == before, "{body}");
    let (.., body) = send(&services, &stranger(), Version::HTTP_2, PODS, JANE).await;
    assert!(!closing(&body), "a short request is still served: {body}");
}

#[tokio::test]
async fn always_allowed_paths_need_only_a_login() {
    let (services, asked) = app(Flags { always_allowed: true, ..Flags::default() }, &front_proxy());
    for (path, header, code) in
        [("/metrics", None, 401), ("/metrics", MALLORY, 401), ("/metrics", BOB, 200), (PODS, BOB, 403)]
    {
        let (status, _, body) = send(&services, &stranger(), Version::HTTP_11, path, header).await;
        assert_eq!(status.as_u16(), code, "{path} {header:?}: {body}");
    }
    assert_eq!(asked(), 3, "two TokenReviews, and a SubjectAccessReview for the member");
}

#[tokio::test]
async fn login_determines_the_level_under_impersonation() {
    let front_proxy = front_proxy();
    let (services, _) = app(Flags::default(), &front_proxy);
    let due = Instant::now() + std::time::Duration::from_secs(60);
    let full: Vec<_> = (0..1000)
        .filter_map(|key| {
            let other = services.limits.caller(Level::Interactive, key);
            services.limits.admit(true, other, due).now_or_never()?.ok()
        })
        .collect();
    assert_eq!(full.len(), 10);
    let (status, _, body) = send(&services, &stranger(), Version::HTTP_11, PODS, JANE).await;
    assert_eq!(status, 429, "{body}");
    let peer = Arc::new(front_proxy.peer());
    for (group, code) in [("system:masters", 503), ("system:nodes", 429), ("dev", 429)] {
        let headers = [("x-remote-user", "root"), ("x-remote-group", group)];
        let (status, _, body) = send_with(&services, &peer, Version::HTTP_11, PODS, &headers).await;
        assert_eq!(status.as_u16(), code, "{group}: {body}");
    }
    for group in ["system:masters", "system:nodes"] {
        let headers = [JANE.unwrap(), ("impersonate-user", "root"), ("impersonate-group", group)];
        let (status, _, body) = send_with(&services, &stranger(), Version::HTTP_11, PODS, &headers).await;
        assert_eq!(status, 429, "{group}: {body}");
    }
}

#[tokio::test]
async fn metrics_on_the_secure_port_need_the_hosts_authorization() {
    let (services, asked) = app(Flags::default(), &front_proxy());
    for (header, code) in [(None, 401), (MALLORY, 401), (BOB, 403), (JANE, 200)] {
        let (status, _, body) = send(&services, &stranger(), Version::HTTP_11, "/metrics", header).await;
        assert_eq!(
            (status.as_u16(), body.contains("mc_sidecar_")),
            (code, code == 200),
            "{header:?}: {body}"
        );
    }
    assert_eq!(asked(), 5, "three TokenReviews and two SubjectAccessReviews");
}
