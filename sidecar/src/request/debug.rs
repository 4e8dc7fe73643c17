//! Shows the state of the sidecar and sets its log level, for operators that the host authorizes for the path
//! (apiserver: `pkg/server/routes/flags.go`, `/debug/flags/v`). The state contains no credential.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as HttpBody;
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use kubectl_mc_api::ClusterName;
use serde::Serialize;
use tracing::info;

use crate::head::request_info::Debug;
use crate::limits::in_flight::Usage;
use crate::members::cluster::Cluster;
use crate::outbound::body::{self, Body, TEXT};
use crate::request::authorized::Authorized;
use crate::request::services::Services;

/// `/debug/state`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct State {
    is_ready: bool,
    log_level: String,
    connections: Connections,
    tunnels: usize,
    limits: Limits,
    caches: Caches,
    members: Vec<Member>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Connections {
    all: usize,
    front_proxy: usize,
    /// Connections without a certificate and without an authenticated request.
    unauthenticated: usize,
}

#[derive(Serialize)]
struct Limits {
    reads: Usage,
    writes: Usage,
    tunnels: Usage,
    watches: Usage,
    agents: Usage,
}

/// Numbers of cache entries.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Caches {
    tokens: usize,
    access: usize,
    access_of_lists: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    name: ClusterName,
    /// The reason why no request can be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy_off: Option<String>,
    #[serde(flatten)]
    way: Option<Way>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Way {
    server: String,
    is_via_agent: bool,
    is_breaker_open: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    failing_since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    idle_connections: usize,
    requests: Usage,
    watches: Usage,
    /// Tunnels that end at this replica.
    agents: Vec<Agent>,
}

#[derive(Serialize)]
struct Agent {
    instance: String,
    version: String,
    since: Timestamp,
}

/// Answers an authorized request.
pub async fn respond<B>(
    services: &Services,
    debug: Debug,
    authorized: Authorized,
    request: Request<B>,
) -> Response<Body>
where
    B: HttpBody<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
{
    match (debug, request.method()) {
        (Debug::State, _) => match serde_json::to_vec_pretty(&State::of(services)) {
            Ok(state) => response(StatusCode::OK, "application/json", state),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        },
        (Debug::LogLevel, &Method::PUT) => set_log_level(services, authorized, request.into_body()).await,
        (Debug::LogLevel, _) => text(StatusCode::OK, &services.log_level.current()),
    }
}

async fn set_log_level<B>(services: &Services, authorized: Authorized, body: B) -> Response<Body>
where
    B: HttpBody<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
{
    let wanted = match Limited::new(body, MAX_LEVEL).collect().await {
        Ok(wanted) => wanted.to_bytes(),
        Err(error) => return text(StatusCode::BAD_REQUEST, &format!("the level cannot be read: {error}")),
    };
    let set = std::str::from_utf8(&wanted).map_err(|_| "it is not UTF-8".to_owned());
    // Logged before the change, because the new level may omit it.
    let before =
        |level: &str| info!(user = authorized.identity().user, level, "the level of the log changes");
    match set.and_then(|wanted| services.log_level.set(wanted, before)) {
        Ok(level) => text(StatusCode::OK, &format!("successfully set the log level to {level}")),
        Err(why) => text(
            StatusCode::BAD_REQUEST,
            &format!(
                "invalid log level, expected a number from 0 to 255 or directives as in RUST_LOG: {why}"
            ),
        ),
    }
}

fn text(code: StatusCode, text: &str) -> Response<Body> {
    response(code, TEXT, format!("{text}\n").into_bytes())
}

fn response(code: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response<Body> {
    let mut response = body::document(code, content_type, body);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

impl State {
    fn of(services: &Services) -> Self {
        let [all, front_proxy, unauthenticated] = services.places.usage().map(|usage| usage.in_use);
        let [reads, writes, tunnels, watches, agents] = services.limits.usage();
        let [access, access_of_lists] = services.authorizer.kept();
        let members = services.inventory.all().into_iter().map(|(name, way)| match way {
            Ok(cluster) => Member { name, proxy_off: None, way: Some(Way::of(services, &cluster)) },
            Err(why) => Member { name, proxy_off: Some(why.to_string()), way: None },
        });
        Self {
            is_ready: services.readiness.is_ready(),
            log_level: services.log_level.current(),
            connections: Connections { all, front_proxy, unauthenticated },
            tunnels: services.tunnels.tasks.len(),
            limits: Limits { reads, writes, tunnels, watches, agents },
            caches: Caches { tokens: services.authenticator.kept(), access, access_of_lists },
            members: members.collect(),
        }
    }
}

impl Way {
    fn of(services: &Services, cluster: &Cluster) -> Self {
        let connection = cluster.upstream.connection();
        let (failing_since, failure) = cluster.upstream.failure().unzip();
        let [requests, watches] = cluster.bounds.usage();
        let agents = services.agent_tunnels.by_preference(&cluster.name).unwrap_or_default();
        let agents = agents.iter().map(|tunnel| Agent {
            instance: tunnel.agent.instance.to_string(),
            version: tunnel.agent.version.to_string(),
            since: tunnel.since,
        });
        Self {
            server: String::from_utf8_lossy(connection.host().as_bytes()).into_owned(),
            is_via_agent: connection.is_via_agent(),
            is_breaker_open: cluster.upstream.is_unreachable(),
            failing_since,
            failure,
            idle_connections: cluster.upstream.idle_connections(),
            requests,
            watches,
            agents: agents.collect(),
        }
    }
}

/// Longer than any useful set of directives.
const MAX_LEVEL: usize = 1024;
