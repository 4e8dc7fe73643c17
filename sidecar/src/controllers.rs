//! Runs the controllers. Every replica serves requests, and the replica that holds the Lease also runs the
//! controllers. Each controller watches the members ([`Context::fleet`]) and reports its findings as
//! conditions.
//!
//! Controllers run on the main thread, which serves no requests. A controller that fails or panics is
//! restarted after a backoff and does not affect the others.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kubectl_mc_api::Origin;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, info, warn};

use crate::base::retry;
use crate::members::inventory::fleet::{Fleet, HubClusters};
use crate::outbound::tunnel::registry::AgentTunnels;

mod access;
mod agent_rbac;
mod agents;
mod cluster_access;
mod cluster_profiles;
pub mod conditions;
mod context;
pub mod credentials;
mod direct_endpoint;
mod enrollment;
mod events;
pub mod health;
mod hub;
mod kube_error;
pub mod leader;
mod listing;
pub mod metrics;
mod objects;
mod registration;
mod turn;
mod work_queue;

use conditions::{Aspect, Awaited, Conditions};
pub use context::{Context, Settings};
use metrics::Metrics;

/// Which controllers run, and how their leader is elected.
#[derive(Debug)]
pub struct Config {
    pub enabled: Enabled,
    pub election: leader::Config,
    pub settings: Settings,
    /// `--admin-groups`, which affect the rights on members.
    pub admin_groups: Arc<[String]>,
}

/// A controller: its name in `--controllers`, and its future, which runs until it is dropped.
struct Controller {
    name: &'static str,
    /// The aspect of members that it reports, if any.
    aspect: Option<Aspect>,
    run: fn(Context) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// All controllers.
const ALL: &[Controller] = &[
    Controller {
        name: "access",
        aspect: Some(Aspect::AuthSynced),
        run: |context| Box::pin(access::run(context)),
    },
    Controller { name: "agent-rbac", aspect: None, run: |context| Box::pin(agent_rbac::run(context)) },
    Controller { name: "agents", aspect: None, run: |context| Box::pin(agents::run(context)) },
    Controller {
        name: "cluster-access",
        aspect: None,
        run: |context| Box::pin(cluster_access::run(context)),
    },
    Controller {
        name: "cluster-profiles",
        aspect: None,
        run: |context| Box::pin(cluster_profiles::run(context)),
    },
    Controller {
        name: "credentials",
        aspect: Some(Aspect::CredentialValid),
        run: |context| Box::pin(credentials::run(context)),
    },
    Controller {
        name: "direct-endpoint",
        aspect: None,
        run: |context| Box::pin(direct_endpoint::run(context)),
    },
    Controller { name: "enrollment", aspect: None, run: |context| Box::pin(enrollment::run(context)) },
    Controller {
        name: "health",
        aspect: Some(Aspect::Reachable),
        run: |context| Box::pin(health::run(context)),
    },
    Controller { name: "karmada", aspect: None, run: |context| Box::pin(hub::run(context, Origin::Karmada)) },
    Controller {
        name: "kubeadmiral",
        aspect: None,
        run: |context| Box::pin(hub::run(context, Origin::KubeAdmiral)),
    },
    Controller { name: "registration", aspect: None, run: |context| Box::pin(registration::run(context)) },
];

/// The value of `--controllers`, with kube-controller-manager's syntax: `*` enables all, `name` enables one,
/// `-name` disables one; an empty list enables none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enabled(Vec<&'static str>);

/// The leader election, and the controllers while this replica leads.
pub struct Controllers {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Enabled {
    pub fn parse(words: &[String]) -> Result<Self, UnknownController> {
        let words: Vec<&str> = words.iter().map(|word| word.trim()).filter(|word| !word.is_empty()).collect();
        let known = |word: &&&str| {
            let name = word.strip_prefix('-').unwrap_or(word);
            **word == "*" || ALL.iter().any(|controller| controller.name == name)
        };
        if let Some(unknown) = words.iter().find(|word| !known(word)) {
            return Err(UnknownController((*unknown).to_owned()));
        }
        let says = |word: String| words.contains(&word.as_str());
        let enabled =
            |name: &&str| !says(format!("-{name}")) && (says((*name).to_owned()) || says("*".to_owned()));
        Ok(Self(ALL.iter().map(|controller| controller.name).filter(enabled).collect()))
    }

    fn contains(&self, controller: &Controller) -> bool {
        self.0.contains(&controller.name)
    }

    /// The aspects that these controllers report for each member.
    fn aspects(&self) -> Arc<[Aspect]> {
        ALL.iter()
            .filter(|controller| self.contains(controller))
            .filter_map(|controller| controller.aspect)
            .collect()
    }
}

/// An unknown name in `--controllers`.
#[derive(Debug, thiserror::Error)]
#[error("unknown controller {0:?}; known controllers: {known}", known = names())]
pub struct UnknownController(String);

fn names() -> String {
    ALL.iter().map(|controller| controller.name).collect::<Vec<_>>().join(", ")
}

impl Controllers {
    /// Joins the leader election, if any controller is enabled.
    pub fn start(
        config: Config,
        host: kube::Client,
        namespace: &str,
        fleet: watch::Receiver<Arc<Fleet>>,
        hub_clusters: watch::Receiver<HubClusters>,
        metrics: Arc<Metrics>,
        tunnels: Arc<AgentTunnels>,
    ) -> Self {
        let Config { enabled, election, settings, admin_groups } = config;
        let stop = CancellationToken::new();
        let gauge = metrics.leader(&election.resource_name);
        if enabled.0.is_empty() {
            return Self { stop, task: tokio::spawn(std::future::ready(())) };
        }
        let namespace = Arc::from(namespace);
        let told = stop.clone();
        let task = tokio::spawn(async move {
            let leases = kube::Api::namespaced(host.clone(), &namespace);
            // After a start, the first probe of each member is within one interval.
            let awaited = Awaited { aspects: enabled.aspects(), patience: settings.member_monitor_period };
            let lead = |leadership: CancellationToken| {
                let (conditions, writer) =
                    Conditions::new(host.clone(), &namespace, fleet.clone(), awaited.clone());
                let context = Context {
                    host: host.clone(),
                    namespace: namespace.clone(),
                    fleet: fleet.clone(),
                    hub_clusters: hub_clusters.clone(),
                    conditions,
                    verdicts: Arc::default(),
                    enrollments: Arc::default(),
                    settings: settings.clone(),
                    metrics: metrics.clone(),
                    tunnels: tunnels.clone(),
                    admin_groups: admin_groups.clone(),
                    leadership,
                };
                lead(enabled.clone(), context, writer)
            };
            leader::run(leases, election, gauge, told, lead).await;
        });
        Self { stop, task }
    }

    /// Stops the controllers and releases the Lease, so that another replica need not wait for its expiry.
    pub async fn stop(self) {
        self.stop.cancel();
        if timeout(STOP_TIMEOUT, self.task).await.is_err() {
            warn!("releasing the Lease timed out");
        }
    }
}

/// Runs the controllers until it is dropped.
async fn lead(enabled: Enabled, context: Context, writer: conditions::Writer) {
    let _guard = Quiet(context.metrics.clone());
    let mut running = JoinSet::new();
    running.spawn(writer.run());
    for controller in ALL.iter().filter(|&controller| enabled.contains(controller)) {
        running.spawn(run_with_restarts(controller, context.clone()));
    }
    while running.join_next().await.is_some() {}
}

/// Removes this replica's metrics about members on drop, because the next leader reports them.
struct Quiet(Arc<Metrics>);

impl Drop for Quiet {
    fn drop(&mut self) {
        self.0.forget_all();
    }
}

/// Runs a controller, and restarts it when it ends. Controllers end only on a failure.
async fn run_with_restarts(controller: &'static Controller, context: Context) {
    let name = controller.name;
    let mut pause = FIRST_PAUSE;
    context.metrics.started(name);
    loop {
        info!(controller = name, "running");
        let began = Instant::now();
        // A separate task isolates a panic of the controller.
        let ended = AbortOnDropHandle::new(tokio::spawn((controller.run)(context.clone()))).await;
        if context.leadership.is_cancelled() {
            return;
        }
        match ended {
            Ok(()) => warn!(controller = name, "the controller ended"),
            Err(error) => error!(controller = name, error = %error, "the controller failed"),
        }
        context.metrics.restarted(name);
        pause = if began.elapsed() > LONG_ENOUGH { FIRST_PAUSE } else { (pause * 2).min(LAST_PAUSE) };
        sleep(retry::jittered(pause)).await;
    }
}

/// The timeout to release the Lease, which is one request.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// After this uptime the backoff is reset.
const LONG_ENOUGH: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests;
