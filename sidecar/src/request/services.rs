//! The shared parts that every request needs.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus_client::registry::Registry as MetricRegistry;

use crate::connection::goaway::Goaway;
use crate::connection::places::Places;
use crate::endpoints::clusters::Registry;
use crate::endpoints::discovery::Documents;
use crate::endpoints::hub_server::HubServer;
use crate::identity::authentication::Authenticator;
use crate::identity::authorization::Authorizer;
use crate::identity::impersonation::member;
use crate::limits::cutoff::Cutoffs;
use crate::limits::in_flight::Limits;
use crate::limits::upload::direct::DirectUploads;
use crate::members::inventory::Inventory;
use crate::observe::log_level::LogLevel;
use crate::observe::readiness::Readiness;
use crate::outbound::tunnel::accounts::Accounts;
use crate::outbound::tunnel::registry::AgentTunnels;
use crate::request::cors::Cors;
use crate::request::fleet::view::Fleet;
use crate::request::tunnels::Tunnels;
use crate::telemetry::audit::Auditor;
use crate::telemetry::requests::Metrics;
use crate::telemetry::spans::Tracer;

/// The shared parts that every request needs.
pub struct Services {
    pub authenticator: Authenticator,
    pub authorizer: Arc<Authorizer>,
    pub limits: Arc<Limits>,
    pub inventory: Arc<Inventory>,
    pub registry: Registry,
    /// The discovery documents.
    pub documents: Arc<ArcSwap<Documents>>,
    /// The server of the hub whose API group the sidecar took over.
    pub hub_server: Option<Arc<HubServer>>,
    pub rules: member::Rules,
    /// `None`: the fleet view is off.
    pub fleet: Option<Fleet>,
    pub request_timeout: Duration,
    pub tunnels: Tunnels,
    pub agent_tunnels: Arc<AgentTunnels>,
    pub agent_accounts: Arc<Accounts>,
    pub metrics: Arc<Metrics>,
    /// The registry of all metrics.
    pub metric_registry: MetricRegistry,
    pub readiness: Readiness,
    pub goaway: Goaway,
    pub cors: Option<Cors>,
    pub cutoffs: Arc<Cutoffs>,
    pub direct_uploads: Arc<DirectUploads>,
    pub places: Arc<Places>,
    pub log_level: LogLevel,
    /// `None`: no audit.
    pub auditor: Option<Arc<Auditor>>,
    /// `None`: no tracing.
    pub tracer: Option<Arc<Tracer>>,
}
