//! Assembles the server from its parts; no other module does. [`Bound::build`] reads no port and no flag: it
//! takes a [`Config`] and returns a server with bound ports.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use kubectl_mc_api::Origin;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::{info, warn};

use crate::base::tcp;
use crate::base::workers::Workers;
use crate::connection::tls;
use crate::connection::tls::replicas::ReplicaTls;
use crate::controllers::{Controllers, leader};
use crate::endpoints::discovery::Documents;
use crate::host::client;
use crate::limits::cutoff::Cutoffs;
use crate::observe::log_level::LogLevel;
use crate::observe::metrics;
use crate::observe::readiness::Readiness;
use crate::outbound::tunnel::accounts::Accounts;
use crate::outbound::tunnel::peers::Peers;
use crate::outbound::tunnel::registry::AgentTunnels;
use crate::programs::config::Config;
use crate::request::fleet::view::Fleet;
use crate::request::services::Services;
use crate::request::tunnels::Tunnels;
use crate::server::admin;
use crate::server::listener;
use crate::telemetry::audit::Auditor;
use crate::telemetry::requests::Metrics as RequestMetrics;
use crate::telemetry::spans::Tracer;

mod start;

use start::{BoundWebhook, Start};

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
    webhooks: Vec<BoundWebhook>,
    shutdown_delay: Duration,
    shutdown_grace: Duration,
}

impl Bound {
    /// Builds the server, and starts to follow the host.
    pub async fn build(config: Config, log_level: LogLevel) -> anyhow::Result<Self> {
        let served_hub = config.inventories.served_hub();
        let hub_behind = config.hub_server.as_ref().map(|_| Origin::Karmada);
        let documents = hub_behind.map_or_else(|| Documents::new(served_hub), Documents::awaiting);
        let documents = Arc::new(ArcSwap::from_pointee(documents));
        let mut start = Start {
            host: client::new(config.kubeconfig.as_deref()).await?,
            namespace: config.namespace,
            readiness: Readiness::default(),
            metrics: metrics::registry(),
        };
        let (replicas, hub) = (Arc::new(ReplicaTls::default()), served_hub.or(hub_behind));
        let (certificates, endpoint) =
            start.certificates(config.certificate, config.direct_server, hub, &replicas)?;
        let (secure, admin) = (tcp::listen(config.address)?, tcp::listen(config.admin_address)?);

        start.readiness.register(&mut start.metrics);
        certificates.clone().register(&mut start.metrics);
        let replica = leader::identity();
        let auditor = Auditor::open(config.audit, &replica, &mut start.metrics).await?;
        let (limits, member_limits) = start.limits(&config.limits);
        let request_metrics = Arc::new(RequestMetrics::register(&mut start.metrics));
        let tracing = config.tracing;
        let tracer =
            tracing.map(|config| Tracer::start(&config, &replica, &mut start.metrics)).transpose()?;
        let trust = start.trust(config.trust);
        let (authorization, admission) = (config.authorization_webhook, config.admission_webhook);
        let webhooks = start.webhooks(authorization, admission, &trust, &certificates)?;
        let peers = Peers::new(config.peers, secure.local_addr()?, replicas);
        tokio::spawn(peers.clone().run());
        let agent_tunnels = AgentTunnels::new(&replica, peers, &mut start.metrics);
        let hub_server = start.hub_server(config.hub_server, &agent_tunnels, &member_limits, &documents)?;
        let agent_accounts = Accounts::new(start.host.clone(), endpoint);
        tokio::spawn(agent_accounts.clone().run());
        let (controllers, inventories) = (config.controllers, config.inventories);
        let members =
            start.members(controllers, inventories, &request_metrics, &agent_tunnels, member_limits);
        let tokens = (config.audiences, config.token_ttl, config.anonymous_auth);
        let (authenticator, authorizer) = start.reviews(trust, tokens, config.authorization)?;
        let connections = Arc::new(listener::Metrics::register(&mut start.metrics));
        let services = Services {
            authenticator,
            authorizer: Arc::new(authorizer),
            limits,
            inventory: members.inventory,
            registry: members.registry,
            documents,
            hub_server,
            fleet: config.fleet.map(|fleet| Fleet::new(fleet, config.rules.clone())),
            rules: config.rules,
            request_timeout: config.request_timeout,
            tunnels: Tunnels::new(&mut start.metrics),
            agent_tunnels,
            agent_accounts,
            metrics: request_metrics,
            metric_registry: start.metrics,
            readiness: start.readiness,
            goaway: config.goaway,
            cors: config.cors,
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
            watch: members.watch,
            controllers: members.controllers,
            connections,
            webhooks,
            shutdown_delay: config.shutdown_delay,
            shutdown_grace: config.shutdown_grace,
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
        close(&services, &connections, shutdown_grace).await;
        // Open requests end here and queue their events.
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

/// Waits until open requests and tunnels have ended, and closes the rest after the grace period.
async fn close(services: &Services, connections: &TaskTracker, grace: Duration) {
    connections.close();
    services.tunnels.tasks.close();
    let ended = async {
        services.registry.drained().await;
        connections.wait().await;
        services.tunnels.tasks.wait().await;
    };
    if timeout(grace, ended).await.is_err() {
        let tunnels = services.tunnels.tasks.len();
        info!(connections = connections.len(), tunnels, "the grace period is over: closing open connections");
        services.tunnels.stop.cancel();
        let closed = async { tokio::join!(services.tunnels.tasks.wait(), connections.wait()) };
        if timeout(CLOSE_TIMEOUT, closed).await.is_err() {
            warn!("some connections did not close in time");
        }
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
