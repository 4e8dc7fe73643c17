//! What keeps the fleet right by itself: every replica serves, and the one that holds the Lease runs
//! these as well. Each controller follows what the host says of the members ([`Context::fleet`]) and
//! tells what it finds by conditions.
//!
//! They run on the main thread, which serves no requests; one that fails, or panics, is begun again
//! after a while and touches nobody else.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kubectl_mc_api::direct::Server;
use kubectl_mc_api::ownership::Layout;
use kubectl_mc_api::{ClusterName, Origin};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, info, warn};

use crate::members::inventory::fleet::{Fleet, HubClusters};
use crate::retry;
use crate::tunnel::registry::AgentTunnels;

mod access;
mod agent_rbac;
mod agents;
mod cluster_access;
mod cluster_profiles;
pub mod conditions;
pub mod credentials;
mod direct_endpoint;
mod enrollment;
mod events;
pub mod health;
mod hub;
mod kube_error;
pub mod leader;
pub mod metrics;
mod turn;
mod work_queue;

use conditions::{Aspect, Awaited, Conditions};
use health::probe::Verdict;
use metrics::Metrics;

/// What every controller is given.
#[derive(Clone)]
pub struct Context {
    pub host: kube::Client,
    /// Where the members' Secrets are, and the Lease.
    pub namespace: Arc<str>,
    /// What the host says of the members now; it changes when the host says something else.
    pub fleet: watch::Receiver<Arc<Fleet>>,
    /// The members that a hub registers, if they count.
    pub hub_clusters: watch::Receiver<HubClusters>,
    /// The only way to write a member's status.
    pub conditions: Conditions,
    /// What members think of our credential, as far as they were asked.
    pub verdicts: Arc<watch::Sender<HashMap<ClusterName, Verdict>>>,
    /// Why members whose enrollment is open could not be enrolled.
    pub enrollments: Arc<watch::Sender<HashMap<ClusterName, String>>>,
    pub settings: Settings,
    pub metrics: Arc<Metrics>,
    /// The way to members that have an agent.
    pub tunnels: Arc<AgentTunnels>,
    /// Groups that members are never shown (`--admin-groups`).
    pub admin_groups: Arc<[String]>,
    /// Cancelled when this replica leads no more. The controller is dropped then, wherever it waits.
    pub leadership: CancellationToken,
}

/// Which controllers run, and how their leader is elected.
#[derive(Debug)]
pub struct Config {
    pub enabled: Enabled,
    pub election: leader::Config,
    pub settings: Settings,
    /// `--admin-groups`, by which members' rights are derived.
    pub admin_groups: Arc<[String]>,
}

/// How controllers do their work.
#[derive(Clone, Debug)]
pub struct Settings {
    /// As often each member is asked whether it is well.
    pub member_monitor_period: Duration,
    /// What somebody changes on a member is repaired within this time, and a half more.
    pub member_resync_period: Duration,
    /// The part of a token's life after which it is renewed.
    pub token_renewal_fraction: f64,
    /// Whether the host publishes a direct endpoint (`--direct-server`).
    pub publishes_direct_endpoint: bool,
    /// The host's server in ClusterProfiles, if there shall be any (`--cluster-profile-server`).
    pub cluster_profile_server: Option<Server>,
    /// Where Karmada has the objects of its agents, if their RBAC is kept (`--karmada-agent-rbac`).
    pub agent_rbac: Option<Layout>,
}

/// A controller: its name for `--controllers`, and what it does until it is dropped.
struct Controller {
    name: &'static str,
    /// What it tells of members, if anything.
    aspect: Option<Aspect>,
    run: fn(Context) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Every controller that there is.
const ALL: &[Controller] = &[
    Controller { name: "access", aspect: Some(Aspect::AuthSynced), run: access::run },
    Controller { name: "agent-rbac", aspect: None, run: agent_rbac::run },
    Controller { name: "agents", aspect: None, run: |context| Box::pin(agents::run(context)) },
    Controller { name: "cluster-access", aspect: None, run: cluster_access::run },
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
];

/// The value of `--controllers`, in kube-controller-manager's words: `*` is all, `name` one, `-name`
/// not that one; nothing is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enabled(Vec<&'static str>);

/// The election, and the controllers while it is won.
pub struct Controllers {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Context {
    fn forget_verdict(&self, cluster: &ClusterName) {
        self.verdicts.send_if_modified(|verdicts| verdicts.remove(cluster).is_some());
    }
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

    /// What these controllers tell of each member.
    fn aspects(&self) -> Arc<[Aspect]> {
        ALL.iter()
            .filter(|controller| self.contains(controller))
            .filter_map(|controller| controller.aspect)
            .collect()
    }
}

/// A word of `--controllers` that names none.
#[derive(Debug, thiserror::Error)]
#[error("unknown controller {0:?}; known controllers: {names}", names = Names)]
pub struct UnknownController(String);

struct Names;

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = ALL.iter().map(|controller| controller.name).collect();
        f.write_str(&names.join(", "))
    }
}

impl Controllers {
    /// Takes part in the election from now on, if any controller is wanted.
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
            // At a start the members are asked for the first time within a period.
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

    /// Ends what runs and gives the Lease up, so that another replica need not wait for its end.
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

/// Ends what this replica tells of members: another will.
struct Quiet(Arc<Metrics>);

impl Drop for Quiet {
    fn drop(&mut self) {
        self.0.forget_all();
    }
}

/// Runs a controller, and runs it again when it ends, which none does unless something is wrong.
async fn run_with_restarts(controller: &'static Controller, context: Context) {
    let name = controller.name;
    let mut pause = FIRST_PAUSE;
    context.metrics.started(name);
    loop {
        info!(controller = name, "running");
        let began = Instant::now();
        // A task of its own, so that a panic is its own, too.
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

/// Giving the Lease up is one request.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// Whoever ran so long did not fail because of how it begins.
const LONG_ENOUGH: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests;
