//! Starts the parts of the server, each with the shared state.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use arc_swap::ArcSwap;
use kubectl_mc_api::direct::{Publication, Server};
use kubectl_mc_api::{Origin, names};
use prometheus_client::registry::Registry as MetricRegistry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use crate::base::tcp;
use crate::connection::tls::certificates::ServingCertificate;
use crate::connection::tls::replicas::ReplicaTls;
use crate::connection::tls::rotation::SelfManaged;
use crate::controllers::{self, Controllers};
use crate::endpoints::admission;
use crate::endpoints::authorize;
use crate::endpoints::clusters::Registry;
use crate::endpoints::discovery::Documents;
use crate::endpoints::hub_server::{self, HubServer};
use crate::identity::authentication::token_review::{CacheMetrics, TokenReviews};
use crate::identity::authentication::{self, Authenticator};
use crate::identity::authorization::{self, Authorizer};
use crate::identity::review_metrics::ReviewMetrics;
use crate::identity::trust::{self, Trust};
use crate::limits::in_flight::{self, Limits, MemberLimits};
use crate::members::inventory::renewal::Renewals;
use crate::members::inventory::{self, Inventories, Inventory};
use crate::members::on_demand_access::OnDemandAccess;
use crate::observe::readiness::{Part, Readiness};
use crate::outbound::tunnel::registry::AgentTunnels;
use crate::programs::args;
use crate::programs::config::{AuthorizationWebhook, Certificate};
use crate::server::webhook::{Service, Webhook};
use crate::telemetry::requests::Metrics as RequestMetrics;

/// The state that every part needs.
pub(super) struct Start {
    pub(super) host: kube::Client,
    pub(super) namespace: String,
    pub(super) readiness: Readiness,
    pub(super) metrics: MetricRegistry,
}

/// The members, and the tasks that follow them.
pub(super) struct Members {
    pub(super) inventory: Arc<Inventory>,
    pub(super) registry: Registry,
    pub(super) watch: AbortOnDropHandle<()>,
    pub(super) controllers: Controllers,
}

/// A webhook with its port and its certificate.
pub(super) type BoundWebhook = (TcpListener, Arc<Webhook>, Arc<ServingCertificate>);

impl Start {
    /// The serving certificate and, if it is self-managed, the direct endpoint with which it is
    /// published.
    pub(super) fn certificates(
        &self,
        source: Certificate,
        direct_server: Option<Server>,
        hub: Option<Origin>,
        replicas: &Arc<ReplicaTls>,
    ) -> anyhow::Result<(Arc<ServingCertificate>, watch::Receiver<Option<Publication>>)> {
        let (endpoint_writer, endpoint) = watch::channel(None);
        let replicas = replicas.clone();
        let certificates = match source {
            Certificate::Files(files) => {
                let certificates = Arc::new(ServingCertificate::from_files(&files)?);
                tokio::spawn(certificates.clone().follow(files, replicas, names::service(&self.namespace)));
                certificates
            }
            Certificate::SelfManaged => {
                let certificates = self_signed()?;
                let pending = self.readiness.pending(Part::ServingCertificate);
                let (host, shown) = (self.host.clone(), certificates.clone());
                let endpoint = direct_server.map(|server| (server, endpoint_writer));
                let made = SelfManaged::new(host, &self.namespace, endpoint, shown, replicas, pending);
                tokio::spawn(made.also_for(hub).run());
                certificates
            }
            Certificate::SelfSigned => {
                warn!(
                    "no --tls-cert-file: serving with a self-signed certificate, which clients cannot verify"
                );
                self_signed()?
            }
        };
        Ok((certificates, endpoint))
    }

    pub(super) fn limits(&mut self, flags: &args::Limits) -> (Arc<Limits>, Arc<MemberLimits>) {
        let size = |places| {
            in_flight::Size::new(places, flags.max_requests_queued_per_caller)
                .with_levels(flags.priority_level_shares)
        };
        let limits = Arc::new(Limits::new(
            size(flags.max_requests_inflight),
            size(flags.max_mutating_requests_inflight),
            flags.max_tunnels,
            flags.max_watches,
            flags.max_agent_tunnels,
        ));
        let member_limits = MemberLimits::new(in_flight::MemberSize {
            in_flight: size(flags.max_member_requests_inflight),
            watches: in_flight::Size::without_queue(flags.max_member_watches),
        });
        limits.register(member_limits.clone(), &mut self.metrics);
        (limits, member_limits)
    }

    /// The CAs that the host trusts, with the keys that flags replace.
    pub(super) fn trust(&self, flags: BTreeMap<String, String>) -> Arc<ArcSwap<Trust>> {
        let trust = Arc::new(ArcSwap::from_pointee(Trust::default()));
        let pending = self.readiness.pending(Part::Trust);
        tokio::spawn(trust::watch::run(self.host.clone(), flags, trust.clone(), pending));
        trust
    }

    pub(super) fn reviews(
        &mut self,
        trust: Arc<ArcSwap<Trust>>,
        (audiences, token_ttl, anonymous_auth): (Vec<String>, Duration, bool),
        authorization: authorization::Config,
    ) -> anyhow::Result<(Authenticator, Authorizer)> {
        let metrics = &mut self.metrics;
        let (token_reviews, access_reviews) = ReviewMetrics::register(metrics);
        let tokens = TokenReviews::new(self.host.clone(), audiences).context("no random numbers")?;
        let tokens = tokens.with_ttl(token_ttl).counted(token_reviews, CacheMetrics::register(metrics));
        let authorizer = Authorizer::with(self.host.clone(), authorization);
        let authorizer = authorizer.counted(authorization::Metrics::register(metrics), access_reviews);
        let logins = authentication::Metrics::register(metrics);
        Ok((Authenticator::new(trust, tokens, anonymous_auth, logins), authorizer))
    }

    /// Binds the webhooks for Karmada's agents that are on.
    pub(super) fn webhooks(
        &mut self,
        authorization: Option<AuthorizationWebhook>,
        admission: Option<SocketAddr>,
        trust: &Arc<ArcSwap<Trust>>,
        certificates: &Arc<ServingCertificate>,
    ) -> anyhow::Result<Vec<BoundWebhook>> {
        let mut webhooks = Vec::new();
        let mut bind = |address, service, clients| {
            let webhook = Arc::new(Webhook::new(service, clients));
            webhooks.push((tcp::listen(address)?, webhook, certificates.clone()));
            anyhow::Ok(())
        };
        if let Some(AuthorizationWebhook { address, clients, layout }) = authorization {
            let clients = clients.map_or_else(|| trust.clone(), |own| Arc::new(ArcSwap::from_pointee(own)));
            let metrics = authorize::Metrics::register(&mut self.metrics);
            bind(address, Service::Authorization { layout, metrics }, clients)?;
        }
        if let Some(address) = admission {
            let service = Service::admission(admission::Metrics::register(&mut self.metrics));
            bind(address, service, trust.clone())?;
        }
        Ok(webhooks)
    }

    /// The server of a hub behind the sidecar, whose documents it then adds.
    pub(super) fn hub_server(
        &self,
        config: Option<hub_server::Config>,
        tunnels: &Arc<AgentTunnels>,
        limits: &MemberLimits,
        documents: &Arc<ArcSwap<Documents>>,
    ) -> anyhow::Result<Option<Arc<HubServer>>> {
        let Some(config) = config else { return Ok(None) };
        let server = HubServer::new(config, tunnels, limits.bounds())?;
        tokio::spawn(server.clone().follow(documents.clone()));
        Ok(Some(server))
    }

    /// Follows the members, and starts the controllers.
    pub(super) fn members(
        &mut self,
        controllers: controllers::Config,
        inventories: Inventories,
        requests: &RequestMetrics,
        tunnels: &Arc<AgentTunnels>,
        limits: Arc<MemberLimits>,
    ) -> Members {
        let Self { host, namespace, readiness, metrics } = self;
        let (renewals, read) = Renewals::new(host.clone(), namespace, &inventories);
        let on_demand = OnDemandAccess::new(host.clone(), namespace);
        let inventory = Arc::new(Inventory::new(renewals, on_demand));
        inventory::metrics::register_breakers(inventory.clone(), metrics);
        let (registry, writer) = Registry::new();
        let (fleet, told) = watch::channel(Arc::default());
        let (hub_clusters, told_of_hub) = watch::channel(None);
        let counts = Arc::new(controllers::metrics::Metrics::register(metrics));
        let client = host.clone();
        let controllers =
            Controllers::start(controllers, client, namespace, told, told_of_hub, counts, tunnels.clone());
        let watch = inventory::watch::Watch {
            namespace: namespace.clone(),
            inventories,
            inventory: inventory.clone(),
            registry: writer,
            fleet,
            hub_clusters,
            metrics: inventory::Metrics::register(metrics),
            requests: requests.by_member.clone(),
            tunnels: tunnels.clone(),
            limits,
            pending: Some(readiness.pending(Part::Members)),
        };
        let watch = AbortOnDropHandle::new(tokio::spawn(inventory::watch::run(host.clone(), watch, read)));
        Members { inventory, registry, watch, controllers }
    }
}

fn self_signed() -> anyhow::Result<Arc<ServingCertificate>> {
    Ok(Arc::new(ServingCertificate::self_signed(vec!["localhost".to_owned()])?))
}
