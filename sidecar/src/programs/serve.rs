//! Assembles the server from its parts; no other module does. [`Bound::build`] reads no port and no flag: it
//! takes a [`Config`] and returns a server with bound ports.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use arc_swap::ArcSwap;
use futures_util::future::join_all;
use kubectl_mc_api::{Origin, names};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::{info, warn};

use crate::base::tcp;
use crate::base::workers::Workers;
use crate::connection::tls;
use crate::connection::tls::certificates::ServingCertificate;
use crate::connection::tls::replicas::ReplicaTls;
use crate::connection::tls::rotation::SelfManaged;
use crate::controllers::{self, Controllers, leader};
use crate::endpoints::admission;
use crate::endpoints::authorize;
use crate::endpoints::clusters::Registry;
use crate::endpoints::discovery::Documents;
use crate::endpoints::hub_server::HubServer;
use crate::host::client;
use crate::identity::authentication::token_review::{CacheMetrics, TokenReviews};
use crate::identity::authentication::{self, Authenticator};
use crate::identity::authorization::{self, Authorizer};
use crate::identity::review_metrics::ReviewMetrics;
use crate::identity::trust::{self, Trust};
use crate::limits::cutoff::Cutoffs;
use crate::limits::in_flight::{self, Limits, MemberLimits};
use crate::members::inventory::renewal::Renewals;
use crate::members::inventory::{self, Inventory};
use crate::members::on_demand_access::OnDemandAccess;
use crate::observe::log_level::LogLevel;
use crate::observe::metrics;
use crate::observe::readiness::{Part, Readiness};
use crate::outbound::tunnel::accounts::Accounts;
use crate::outbound::tunnel::peers::Peers;
use crate::outbound::tunnel::registry::AgentTunnels;
use crate::programs::config::{self, Certificate, Config};
use crate::request::services::Services;
use crate::request::upgrade::Tunnels;
use crate::server::admin;
use crate::server::listener;
use crate::server::webhook::{Service, Webhook};
use crate::telemetry::audit::Auditor;
use crate::telemetry::requests::Metrics as RequestMetrics;
use crate::telemetry::spans::Tracer;

/// A server with bound ports.
pub struct Bound {
    pub address: SocketAddr,
    pub admin_address: SocketAddr,
    services: Arc<Services>,
    secure: TcpListener,
    admin: TcpListener,
    tls: Arc<ServerConfig>,
    /// Follows the host's members. When it ends, the watches of `clusters` end, too.
    watch: AbortOnDropHandle<()>,
    controllers: Controllers,
    connections: Arc<listener::Metrics>,
    webhooks: Vec<(TcpListener, Arc<Webhook>, Arc<ServingCertificate>)>,
    shutdown_delay: Duration,
    shutdown_grace: Duration,
}

impl Bound {
    /// Builds the server, and starts to follow the host.
    pub async fn build(config: Config, log_level: LogLevel) -> anyhow::Result<Self> {
        let Config {
            kubeconfig,
            namespace,
            inventories,
            hub_server,
            address,
            admin_address,
            certificate,
            direct_server,
            trust: trust_flags,
            audiences,
            anonymous_auth,
            token_ttl,
            authorization,
            goaway,
            cors,
            rules,
            max_inflight,
            max_mutating_inflight,
            max_member_inflight,
            level_shares,
            max_queued_per_caller: queued_per_caller,
            max_tunnels,
            max_agent_tunnels,
            peers,
            max_watches,
            max_member_watches,
            request_timeout,
            shutdown_delay,
            shutdown_grace,
            controllers,
            audit,
            authorization_webhook,
            admission_webhook,
            tracing,
            log_format: _,
        } = config;
        let host = client::new(kubeconfig.as_deref()).await?;
        let served_hub = inventories.served_hub();
        let hub_behind = hub_server.as_ref().map(|_| Origin::Karmada);
        let documents = hub_behind.map_or_else(|| Documents::new(served_hub), Documents::awaiting);
        let documents = Arc::new(ArcSwap::from_pointee(documents));
        let readiness = Readiness::default();
        let replicas = Arc::new(ReplicaTls::default());
        let (endpoint_writer, endpoint) = watch::channel(None);
        let certificates = match certificate {
            Certificate::Files(files) => {
                let certificates = Arc::new(ServingCertificate::from_files(&files)?);
                let (replicas, name) = (replicas.clone(), names::service(&namespace));
                tokio::spawn(certificates.clone().follow(files, replicas, name));
                certificates
            }
            Certificate::SelfManaged => {
                let certificates = self_signed()?;
                let pending = readiness.pending(Part::ServingCertificate);
                let (shown, replicas) = (certificates.clone(), replicas.clone());
                let endpoint = direct_server.map(|server| (server, endpoint_writer));
                let made = SelfManaged::new(host.clone(), &namespace, endpoint, shown, replicas, pending);
                let made = made.also_for(served_hub.or(hub_behind));
                tokio::spawn(made.run());
                certificates
            }
            Certificate::SelfSigned => {
                warn!(
                    "no --tls-cert-file: serving with a self-signed certificate, which clients cannot verify"
                );
                self_signed()?
            }
        };
        let secure = tcp::listen(address)?;
        let admin = tcp::listen(admin_address)?;

        let mut metric_registry = metrics::registry();
        readiness.register(&mut metric_registry);
        certificates.clone().register(&mut metric_registry);
        let replica = leader::identity();
        let auditor = Auditor::open(audit, &replica, &mut metric_registry).await?;
        let size = |places| in_flight::Size::new(places, queued_per_caller).with_levels(level_shares);
        let limits = Arc::new(Limits::new(
            size(max_inflight),
            size(max_mutating_inflight),
            max_tunnels,
            max_watches,
            max_agent_tunnels,
        ));
        let member_limits = MemberLimits::new(in_flight::MemberSize {
            in_flight: size(max_member_inflight),
            watches: in_flight::Size::without_queue(max_member_watches),
        });
        limits.register(member_limits.clone(), &mut metric_registry);
        let metrics = &mut metric_registry;
        let (token_reviews, access_reviews) = ReviewMetrics::register(metrics);
        let request_metrics = Arc::new(RequestMetrics::register(metrics));
        let tracer = tracing.map(|config| Tracer::start(&config, &replica, metrics)).transpose()?;
        let trust = Arc::new(ArcSwap::from_pointee(Trust::default()));
        let pending = readiness.pending(Part::Trust);
        tokio::spawn(trust::watch::run(host.clone(), trust_flags, trust.clone(), pending));
        let mut webhooks = Vec::new();
        if let Some(config::AuthorizationWebhook { address, clients, layout }) = authorization_webhook {
            let clients = clients.map_or_else(|| trust.clone(), |own| Arc::new(ArcSwap::from_pointee(own)));
            let service = Service::Authorization { layout, metrics: authorize::Metrics::register(metrics) };
            let webhook = Webhook::new(service, clients);
            webhooks.push((tcp::listen(address)?, Arc::new(webhook), certificates.clone()));
        }
        if let Some(address) = admission_webhook {
            let service = Service::admission(admission::Metrics::register(metrics));
            let webhook = Webhook::new(service, trust.clone());
            webhooks.push((tcp::listen(address)?, Arc::new(webhook), certificates.clone()));
        }
        let (renewals, read) = Renewals::new(host.clone(), &namespace, &inventories);
        let peers = Peers::new(peers, secure.local_addr()?, replicas);
        tokio::spawn(peers.clone().run());
        let agent_tunnels = AgentTunnels::new(&replica, peers, metrics);
        let start = |config| HubServer::new(config, &agent_tunnels, member_limits.bounds());
        let hub_server = hub_server.map(start).transpose()?;
        if let Some(server) = &hub_server {
            tokio::spawn(server.clone().follow(documents.clone()));
        }
        let agent_accounts = Accounts::new(host.clone(), endpoint);
        tokio::spawn(agent_accounts.clone().run());
        let inventory = Arc::new(Inventory::new(renewals, OnDemandAccess::new(host.clone(), &namespace)));
        inventory::metrics::register_breakers(inventory.clone(), metrics);
        let (registry, writer) = Registry::new();
        let (fleet, told) = watch::channel(Arc::default());
        let (hub_clusters, told_of_hub) = watch::channel(None);
        let controller_metrics = Arc::new(controllers::metrics::Metrics::register(metrics));
        let controllers = Controllers::start(
            controllers,
            host.clone(),
            &namespace,
            told,
            told_of_hub,
            controller_metrics,
            agent_tunnels.clone(),
        );
        let watch = inventory::watch::Watch {
            namespace,
            inventories,
            inventory: inventory.clone(),
            registry: writer,
            fleet,
            hub_clusters,
            metrics: inventory::Metrics::register(metrics),
            requests: request_metrics.by_member.clone(),
            tunnels: agent_tunnels.clone(),
            limits: member_limits,
            pending: Some(readiness.pending(Part::Members)),
        };
        let watch = AbortOnDropHandle::new(tokio::spawn(inventory::watch::run(host.clone(), watch, read)));

        let tokens = TokenReviews::new(host.clone(), audiences).context("no random numbers")?;
        let tokens = tokens.with_ttl(token_ttl).counted(token_reviews, CacheMetrics::register(metrics));
        let authorizer = Authorizer::with(host, authorization);
        let authorizer = authorizer.counted(authorization::Metrics::register(metrics), access_reviews);
        let connections = Arc::new(listener::Metrics::register(metrics));
        let logins = authentication::Metrics::register(metrics);
        let services = Services {
            authenticator: Authenticator::new(trust, tokens, anonymous_auth, logins),
            authorizer: Arc::new(authorizer),
            limits,
            inventory,
            registry,
            documents,
            hub_server,
            rules,
            request_timeout,
            tunnels: Tunnels::new(metrics),
            agent_tunnels,
            agent_accounts,
            metrics: request_metrics,
            metric_registry,
            readiness,
            goaway,
            cors,
            cutoffs: Cutoffs::new(),
            direct_uploads: Arc::default(),
            places: Arc::default(),
            log_level,
            auditor,
            tracer,
        };
        Ok(Self {
            address: secure.local_addr()?,
            admin_address: admin.local_addr()?,
            services: Arc::new(services),
            secure,
            admin,
            tls: Arc::new(tls::server_config(certificates)),
            watch,
            controllers,
            connections,
            webhooks,
            shutdown_delay,
            shutdown_grace,
        })
    }

    /// Serves until `shutdown`, and then drains (apiserver: `server/genericapiserver.go`). First readiness
    /// fails, and everything is still served during the delay. Then no new connections are accepted; open
    /// connections get no new long-running requests. After the grace period the rest is closed, and both
    /// sides are notified.
    pub async fn run(self, workers: Workers, shutdown: CancellationToken) {
        let Self {
            address,
            admin_address,
            services,
            secure,
            admin,
            tls,
            watch,
            controllers,
            connections: connection_metrics,
            webhooks,
            shutdown_delay,
            shutdown_grace,
        } = self;
        info!(%address, %admin_address, "serving");
        let (connections, probes) = (TaskTracker::new(), TaskTracker::new());
        let stop_admin = CancellationToken::new();
        let _cutoffs = AbortOnDropHandle::new(tokio::spawn(services.cutoffs.clone().run()));
        let _uploads = AbortOnDropHandle::new(tokio::spawn(services.direct_uploads.clone().run()));
        let _unread = AbortOnDropHandle::new(tokio::spawn(services.agent_tunnels.unread().clone().run()));
        let _caches = AbortOnDropHandle::new(tokio::spawn(forget_expired(services.clone())));
        let respond = admin::of_services(services.clone(), &admin);
        probes.spawn(admin::run(admin, respond, probes.clone(), stop_admin.clone()));
        let last_call = CancellationToken::new();
        let webhooks = join_all(webhooks.into_iter().map(|(listener, webhook, certificates)| {
            if let Ok(address) = listener.local_addr() {
                info!(%address, webhook = webhook.name(), "serving webhooks");
            }
            webhook.run(listener, certificates, &workers, connections.clone(), last_call.clone())
        }));
        let serving = listener::run(
            secure,
            tls,
            services.clone(),
            connection_metrics,
            &workers,
            connections.clone(),
            last_call.clone(),
        );
        let told = async {
            shutdown.cancelled().await;
            services.readiness.drain();
            info!(connections = connections.len(), tunnels = services.tunnels.tasks.len(), "shutting down");
            // The host sends connections until it knows that this replica is not ready; agents dial another
            // one.
            let leaving = timeout(DRAIN_TIMEOUT, services.agent_tunnels.drain());
            let _ = tokio::join!(sleep(shutdown_delay), leaving);
            services.inventory.sweep();
            services.readiness.close();
            last_call.cancel();
        };
        let gave_up = async {
            shutdown.cancelled().await;
            controllers.stop().await;
        };
        tokio::join!(serving, webhooks, told, gave_up);
        drop(watch);
        connections.close();
        services.tunnels.tasks.close();
        let ended = async {
            services.registry.drained().await;
            connections.wait().await;
            services.tunnels.tasks.wait().await;
        };
        if timeout(shutdown_grace, ended).await.is_err() {
            let tunnels = services.tunnels.tasks.len();
            info!(
                connections = connections.len(),
                tunnels, "the grace period is over: closing open connections"
            );
            services.tunnels.stop.cancel();
            let closed = async { tokio::join!(services.tunnels.tasks.wait(), connections.wait()) };
            if timeout(CLOSE_TIMEOUT, closed).await.is_err() {
                warn!("some connections did not close in time");
            }
        }
        // Open requests end here, and queue their events.
        drop(workers);
        if let Some(auditor) = &services.auditor {
            auditor.flush(FLUSH_TIMEOUT).await;
        }
        if let Some(tracer) = &services.tracer {
            tracer.flush(SPAN_FLUSH_TIMEOUT).await;
        }
        stop_admin.cancel();
        probes.close();
        probes.wait().await;
        info!("stopped");
    }
}

/// Drops expired entries of the caches. Otherwise those of a flood of invented users and tokens would stay
/// forever, and keep the memory pages around them.
async fn forget_expired(services: Arc<Services>) {
    loop {
        sleep(FORGET_INTERVAL).await;
        services.authenticator.forget_expired();
        services.authorizer.forget_expired();
    }
}

fn self_signed() -> anyhow::Result<Arc<ServingCertificate>> {
    Ok(Arc::new(ServingCertificate::self_signed(vec!["localhost".to_owned()])?))
}

/// As long as most entries are valid.
const FORGET_INTERVAL: Duration = Duration::from_secs(10);
/// Timeout for notifying an agent, even around the world.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for exporting the last spans.
const SPAN_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for storing the last audit events.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for closing a tunnel: a TLS alert and a FIN.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
