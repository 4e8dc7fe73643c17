//! Where the parts are put together, and nowhere else. [`App::build`] reads no port and no flag: a
//! [`Config`] goes in, a server that is bound comes out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use arc_swap::ArcSwap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::{info, warn};

use crate::authentication::Authenticator;
use crate::authentication::token_review::TokenReviews;
use crate::authentication::trust::{self, Trust};
use crate::authorization::{Allowed, Authorizer};
use crate::clusters::Registry;
use crate::config::{Certificate, Config};
use crate::controllers::Controllers;
use crate::cors::Cors;
use crate::cutoff::Cutoffs;
use crate::goaway::Goaway;
use crate::impersonation::member;
use crate::inventory::renewal::Renewals;
use crate::inventory::{self, Inventory};
use crate::limits::{self, Limits};
use crate::metrics::Metrics;
use crate::on_demand_access::OnDemandAccess;
use crate::readiness::Readiness;
use crate::record::Record;
use crate::revalidation::Revalidation;
use crate::tls::certificates::ServingCertificate;
use crate::tls::rotation::SelfManaged;
use crate::upgrade::Tunnels;
use crate::workers::Workers;
use crate::{admin, listener, tls};

/// What every request needs.
pub struct App {
    pub authenticator: Authenticator,
    pub authorizer: Arc<Authorizer>,
    pub limits: Limits,
    pub inventory: Arc<Inventory>,
    pub registry: Registry,
    pub rules: member::Rules,
    pub request_timeout: Duration,
    pub tunnels: Tunnels,
    pub metrics: Arc<Metrics>,
    pub readiness: Readiness,
    pub goaway: Goaway,
    pub cors: Option<Cors>,
    pub cutoffs: Arc<Cutoffs>,
}

/// A server whose ports are bound.
pub struct Bound {
    pub address: SocketAddr,
    pub admin_address: SocketAddr,
    app: Arc<App>,
    secure: TcpListener,
    admin: TcpListener,
    tls: Arc<ServerConfig>,
    /// Follows the host's members. When it ends, so do the watches of `clusters`.
    watch: AbortOnDropHandle<()>,
    controllers: Controllers,
    shutdown_delay: Duration,
    shutdown_grace: Duration,
}

impl App {
    /// The leave of a long-running request that was just allowed.
    pub fn revalidate(
        &self,
        allowed: Allowed,
        gone: Option<CancellationToken>,
        record: &Record,
    ) -> Revalidation {
        let (authorizer, stop) = (self.authorizer.clone(), self.tunnels.stop.clone());
        Revalidation::grant(authorizer, allowed, stop, gone, record.cutoff().clone())
    }

    /// Puts the server together and begins to follow the host.
    pub async fn build(config: Config) -> anyhow::Result<Bound> {
        let Config {
            kubeconfig,
            namespace,
            address,
            admin_address,
            certificate,
            trust: trust_flags,
            audiences,
            anonymous_auth,
            goaway,
            cors,
            rules,
            max_inflight,
            max_mutating_inflight,
            max_member_inflight,
            max_queued_per_caller: queued_per_caller,
            max_tunnels,
            max_watches,
            max_member_watches,
            request_timeout,
            shutdown_delay,
            shutdown_grace,
            controllers,
            log_format: _,
        } = config;
        let host = host(kubeconfig.as_deref()).await?;
        let readiness = Readiness::default();
        let certificates = match certificate {
            Certificate::Files(files) => {
                let certificates = Arc::new(ServingCertificate::from_files(&files)?);
                tokio::spawn(certificates.clone().follow(files));
                certificates
            }
            Certificate::SelfManaged => {
                let certificates = self_signed()?;
                let pending = readiness.pending();
                let made = SelfManaged::new(host.clone(), &namespace, certificates.clone(), pending);
                tokio::spawn(made.run());
                certificates
            }
            Certificate::SelfSigned => {
                warn!("no --tls-cert-file: serving with a self-signed certificate that nobody can verify");
                self_signed()?
            }
        };
        let secure = bind(address)?;
        let admin = bind(admin_address)?;

        let metrics = Arc::new(Metrics::default());
        let trust = Arc::new(ArcSwap::from_pointee(Trust::default()));
        tokio::spawn(trust::watch::run(host.clone(), trust_flags, trust.clone(), readiness.pending()));
        let (renewals, read) = Renewals::new(host.clone(), &namespace);
        let size = |places| limits::Size::new(places, queued_per_caller);
        let inventory = Arc::new(Inventory::new(renewals, OnDemandAccess::new(host.clone(), &namespace)));
        let (registry, writer) = Registry::new();
        let (fleet, told) = watch::channel(Arc::default());
        let controllers = Controllers::start(controllers, host.clone(), &namespace, told, metrics.clone());
        let watch = inventory::watch::Watch {
            namespace,
            inventory: inventory.clone(),
            read,
            registry: writer,
            fleet,
            metrics: metrics.clone(),
            size_per_member: limits::MemberSize {
                in_flight: size(max_member_inflight),
                watches: limits::Size::without_queue(max_member_watches),
            },
            pending: readiness.pending(),
        };
        let watch = AbortOnDropHandle::new(tokio::spawn(inventory::watch::run(host.clone(), watch)));

        let tokens = TokenReviews::new(host.clone(), audiences).context("no random numbers")?;
        let tunnels =
            Tunnels { tasks: TaskTracker::new(), stop: CancellationToken::new(), metrics: metrics.clone() };
        let app = Self {
            authenticator: Authenticator::new(trust, tokens, anonymous_auth, metrics.clone()),
            authorizer: Arc::new(Authorizer::new(host)),
            limits: Limits::new(size(max_inflight), size(max_mutating_inflight), max_tunnels, max_watches),
            inventory,
            registry,
            rules,
            request_timeout,
            tunnels,
            metrics,
            readiness,
            goaway,
            cors,
            cutoffs: Cutoffs::new(),
        };
        Ok(Bound {
            address: secure.local_addr()?,
            admin_address: admin.local_addr()?,
            app: Arc::new(app),
            secure,
            admin,
            tls: Arc::new(tls::server_config(certificates)),
            watch,
            controllers,
            shutdown_delay,
            shutdown_grace,
        })
    }
}

impl Bound {
    /// Serves until `shutdown`, then lets what is under way end (apiserver: `server/genericapiserver.go`):
    /// red readiness and the delay, in which everything is served; then no new connections, and on those
    /// that live the last requests, but nothing that would not end by itself; the grace period; and an
    /// end to what is still open, of which both sides are told.
    pub async fn run(self, workers: Workers, shutdown: CancellationToken) {
        let Self {
            address,
            admin_address,
            app,
            secure,
            admin,
            tls,
            watch,
            controllers,
            shutdown_delay,
            shutdown_grace,
        } = self;
        info!(%address, %admin_address, "serving");
        let (connections, probes) = (TaskTracker::new(), TaskTracker::new());
        let stop_admin = CancellationToken::new();
        let _cutoffs = AbortOnDropHandle::new(tokio::spawn(app.cutoffs.clone().run()));
        let _caches = AbortOnDropHandle::new(tokio::spawn(forget_expired(app.clone())));
        probes.spawn(admin::run(admin, app.clone(), probes.clone(), stop_admin.clone()));
        let last_call = CancellationToken::new();
        let serving =
            listener::run(secure, tls, app.clone(), &workers, connections.clone(), last_call.clone());
        let told = async {
            shutdown.cancelled().await;
            app.readiness.drain();
            info!(connections = connections.len(), tunnels = app.tunnels.tasks.len(), "shutting down");
            // Until the host knows that this replica is not ready, it sends it connections.
            sleep(shutdown_delay).await;
            app.readiness.close();
            last_call.cancel();
        };
        let gave_up = async {
            shutdown.cancelled().await;
            controllers.stop().await;
        };
        tokio::join!(serving, told, gave_up);
        drop(watch);
        connections.close();
        app.tunnels.tasks.close();
        let ended = async {
            app.registry.drained().await;
            connections.wait().await;
            app.tunnels.tasks.wait().await;
        };
        if timeout(shutdown_grace, ended).await.is_err() {
            let tunnels = app.tunnels.tasks.len();
            info!(
                connections = connections.len(),
                tunnels, "the grace period is over: what is open is closed"
            );
            app.tunnels.stop.cancel();
            let closed = async { tokio::join!(app.tunnels.tasks.wait(), connections.wait()) };
            if timeout(CLOSE_TIMEOUT, closed).await.is_err() {
                warn!("some connections did not close in time");
            }
        }
        stop_admin.cancel();
        probes.close();
        probes.wait().await;
        info!("bye");
    }
}

/// Drops what the caches hold past its time: after a flood of made-up users and tokens it would stay for good, and keep
/// the pages around it.
async fn forget_expired(app: Arc<App>) {
    loop {
        sleep(FORGET_INTERVAL).await;
        app.authenticator.forget_expired();
        app.authorizer.forget_expired();
    }
}

async fn host(kubeconfig: Option<&std::path::Path>) -> anyhow::Result<kube::Client> {
    let config = match kubeconfig {
        Some(path) => {
            let kubeconfig =
                Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("cannot use {}", path.display()))?
        }
        None => kube::Config::incluster().context("no --kubeconfig, and not in a pod")?,
    };
    kube::Client::try_from(config).context("the host cannot be reached with this kubeconfig")
}

fn self_signed() -> anyhow::Result<Arc<ServingCertificate>> {
    Ok(Arc::new(ServingCertificate::self_signed(vec!["localhost".to_owned()])?))
}

fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().with_context(|| format!("cannot bind {address}"))
}

/// Connections that are not accepted yet: as many as the kernel allows (`net.core.somaxconn`), as Go has it.
/// Where the queue is full the kernel says nothing, and a client tries again after a second.
const BACKLOG: u32 = 65_535;

/// As long as most of it is kept.
const FORGET_INTERVAL: Duration = Duration::from_secs(10);
/// What closing a tunnel takes: a TLS alert and a FIN.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
