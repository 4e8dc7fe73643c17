//! The shared parts that every request needs.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus_client::registry::Registry as MetricRegistry;
use tokio_util::sync::CancellationToken;

use crate::audit::Auditor;
use crate::endpoints::clusters::Registry;
use crate::endpoints::discovery::Documents;
use crate::hub_server::HubServer;
use crate::identity::authentication::Authenticator;
use crate::identity::authorization::{Allowed, Authorizer};
use crate::identity::impersonation::member;
use crate::log_level::LogLevel;
use crate::members::inventory::Inventory;
use crate::readiness::Readiness;
use crate::request::cutoff::Cutoffs;
use crate::request::limits::Limits;
use crate::request::metrics::Metrics;
use crate::request::record::Record;
use crate::request::revalidation::{self, Revalidation};
use crate::request::upgrade::Tunnels;
use crate::request::upload::direct::DirectUploads;
use crate::server::cors::Cors;
use crate::server::goaway::Goaway;
use crate::server::places::Places;
use crate::spans::Tracer;
use crate::tunnel::accounts::Accounts;
use crate::tunnel::registry::AgentTunnels;

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

impl Services {
    /// Starts the revalidation of a long-running request that was just allowed.
    pub fn revalidate(
        &self,
        allowed: Allowed,
        gone: Option<CancellationToken>,
        record: &Record,
    ) -> Revalidation {
        self.revalidate_every(revalidation::INTERVAL, allowed, gone, record)
    }

    /// The same with another interval.
    pub fn revalidate_every(
        &self,
        interval: Duration,
        allowed: Allowed,
        gone: Option<CancellationToken>,
        record: &Record,
    ) -> Revalidation {
        let (authorizer, stop) = (self.authorizer.clone(), self.tunnels.stop.clone());
        Revalidation::grant(authorizer, allowed, interval, stop, gone, record.hold().cutoff().clone())
    }
}
