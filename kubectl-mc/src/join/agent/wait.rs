//! Waits until the host reports the agent as connected, shows the state of its pods, and stops early on
//! problems that do not resolve by waiting.

use std::time::Duration;

use kubectl_mc_api::manifests::agent::AGENT_SELECTOR;
use kubectl_mc_api::names::{AGENT, AGENT_NAMESPACE};
use kubectl_mc_api::{ClusterName, path};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::cluster::connection::{Connection, ConnectionError};
use crate::cluster::pods::{self, Problem};
use crate::error::{CommandLine, Failure};
use crate::join::wait::{State, state};
use crate::progress::Step;

/// The condition of a MemberCluster that reports whether the agent is connected.
pub(crate) const CONNECTED: &str = "Connected";

/// The agent to wait for.
pub(crate) struct Waiting<'a> {
    pub(crate) name: &'a ClusterName,
    pub(crate) host: &'a Connection,
    pub(crate) member: &'a Connection,
    /// The host's server, as configured for the agent.
    pub(crate) server: &'a str,
}

impl Waiting<'_> {
    pub(crate) async fn until_connected(
        &self,
        timeout: Duration,
        step: &mut Step<'_>,
    ) -> Result<(), Failure> {
        let connected = async || {
            let cluster = self.host.get(&path::member_cluster(self.name)).await?.unwrap_or_default();
            Ok(state(&cluster, CONNECTED))
        };
        self.until(connected, timeout, step).await
    }

    /// Waits for ready pods instead, because a member that is still connected directly has no condition about
    /// its agent. A pod is ready while it has a tunnel.
    pub(crate) async fn until_ready(&self, timeout: Duration, step: &mut Step<'_>) -> Result<(), Failure> {
        let ready = async || {
            let deployment = self.deployment().await?;
            Ok(pods::not_ready(&deployment).map_or(State::True, State::not))
        };
        self.until(ready, timeout, step).await
    }

    /// Waits until no old pod is left, because its tunnel leads to the previous target.
    pub(crate) async fn until_replaced(&self, timeout: Duration, step: &mut Step<'_>) -> Result<(), Failure> {
        let replaced = async || {
            let deployment = self.deployment().await?;
            Ok(pods::not_replaced(&deployment).map_or(State::True, State::not))
        };
        self.until(replaced, timeout, step).await
    }

    async fn until(
        &self,
        look: impl AsyncFn() -> Result<State, ConnectionError>,
        timeout: Duration,
        step: &mut Step<'_>,
    ) -> Result<(), Failure> {
        let begin = Instant::now();
        let mut retried = false;
        loop {
            let state = look().await?;
            let Some(said) = state.unmet().map(str::to_owned) else { return Ok(()) };
            let newest = self.newest_pods().await?;
            let client = &self.member.client;
            if !std::mem::replace(&mut retried, true)
                && pods::replace_failed(client, AGENT_NAMESPACE, &newest).await
            {
                continue;
            }
            let problem = newest.iter().filter_map(Problem::of).max_by_key(Problem::is_final);
            let problem = match problem {
                None => pods::of_deployment(&self.deployment().await?),
                problem => problem,
            };
            let said = problem.as_ref().map_or(said, Problem::to_string);
            if begin.elapsed() > timeout || problem.as_ref().is_some_and(Problem::is_final) {
                return Err(self.not_connected(said, problem.as_ref()).await);
            }
            step.update(&said);
            sleep(POLL).await;
        }
    }

    async fn deployment(&self) -> Result<Value, ConnectionError> {
        let path = format!("/apis/apps/v1/namespaces/{AGENT_NAMESPACE}/deployments/{AGENT}");
        Ok(self.member.readable(&path).await?.unwrap_or_default())
    }

    async fn newest_pods(&self) -> Result<Vec<Value>, ConnectionError> {
        let selected = format!("?labelSelector={}", AGENT_SELECTOR.replace('=', "%3D"));
        let get = async |path: String| {
            Ok::<_, ConnectionError>(self.member.readable(&path).await?.unwrap_or_default())
        };
        let sets = get(format!("/apis/apps/v1/namespaces/{AGENT_NAMESPACE}/replicasets{selected}")).await?;
        let list = get(format!("/api/v1/namespaces/{AGENT_NAMESPACE}/pods{selected}")).await?;
        Ok(pods::newest(&sets, list))
    }

    async fn not_connected(&self, mut said: String, problem: Option<&Problem>) -> Failure {
        if let Some(pod) = problem.and_then(Problem::crashed) {
            let client = &self.member.client;
            said = format!("{said}{}", pods::last_words(client, AGENT_NAMESPACE, pod, AGENT).await);
        }
        let kubectl = self.member.cluster.kubectl();
        let hint = match problem {
            Some(_) => CommandLine::new(format!("{kubectl} -n {AGENT_NAMESPACE} describe pods")).that("shows the details"),
            None => CommandLine::new(format!("{kubectl} -n {AGENT_NAMESPACE} logs deployment/{AGENT}"))
                .that(format!("shows why it does not reach {}", self.server))
                .and(
                    "set the host's address, certificate authority and proxy as seen from the member (--agent-server, \
                     --agent-server-ca, --agent-proxy)",
                ),
        };
        Failure::new(format!("the agent of {} is not connected: {said}", self.name)).with_hint(hint)
    }
}

const POLL: Duration = Duration::from_millis(500);
