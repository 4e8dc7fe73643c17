//! Waits until the sidecars are available and the host reaches them, reports the progress, and stops early on
//! problems that waiting cannot solve.

use std::time::Duration;

use kubectl_mc_api::manifests::SELECTOR;
use kubectl_mc_api::names::{API_SERVICE, SIDECAR};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::pods::{self, Problem};
use super::{InstallError, get, items};
use crate::cluster::connection::Connection;
use crate::progress::Step;

/// When waiting ends; never, for a duration of 0.
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn after(duration: Duration) -> Self {
        Self((!duration.is_zero()).then(|| Instant::now() + duration))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

/// Until all replicas of the new version are available.
pub(crate) async fn deployment(
    runs_on: &Connection,
    namespace: &str,
    deadline: &Deadline,
    step: &mut Step<'_>,
) -> Result<(), InstallError> {
    let client = &runs_on.client;
    let of_namespace = format!("namespaces/{namespace}");
    let path = format!("/apis/apps/v1/{of_namespace}/deployments/{SIDECAR}");
    let selected = format!("?labelSelector={}", SELECTOR.replace('=', "%3D"));
    loop {
        let deployment = get(client, &path).await?;
        if rolled_out(&deployment) {
            return Ok(());
        }
        let mut problem = pods::of_deployment(&deployment);
        if is_observed(&deployment) {
            let sets = get(client, &format!("/apis/apps/v1/{of_namespace}/replicasets{selected}")).await?;
            let list = get(client, &format!("/api/v1/{of_namespace}/pods{selected}")).await?;
            let newest = pods::newest(items(&sets));
            let newest = items(&list).filter(|pod| pods::is_of(pod, newest.as_deref()));
            problem = newest.filter_map(Problem::of).max_by_key(Problem::is_final).or(problem);
        }
        let available = available(&deployment);
        let state =
            problem.as_ref().map_or_else(|| available.clone(), |problem| format!("{available}: {problem}"));
        if deadline.is_over() || problem.as_ref().is_some_and(Problem::is_final) {
            let mut reason = state;
            if let Some(pod) = problem.as_ref().and_then(Problem::crashed) {
                reason = format!("{reason}{}", last_words(client, namespace, pod).await);
            }
            return Err(InstallError::NotAvailable { reason, hint: hint(runs_on, namespace) });
        }
        step.update(&state);
        sleep(POLL).await;
    }
}

fn is_observed(deployment: &Value) -> bool {
    deployment["status"]["observedGeneration"].as_u64() >= deployment["metadata"]["generation"].as_u64()
}

/// How far it is; those of the version before are available as well while the new are not.
fn available(deployment: &Value) -> String {
    let count = |field: &str| deployment["status"][field].as_u64().unwrap_or(0);
    let before = match count("replicas").saturating_sub(count("updatedReplicas")) {
        0 => String::new(),
        before => format!(", {before} of the old version not replaced yet"),
    };
    format!("{} of {} available{before}", count("availableReplicas"), deployment["spec"]["replicas"])
}

/// As `kubectl rollout status` judges it.
fn rolled_out(deployment: &Value) -> bool {
    let (status, wanted) = (&deployment["status"], deployment["spec"]["replicas"].as_u64().unwrap_or(1));
    let count = |field: &str| status[field].as_u64().unwrap_or(0);
    is_observed(deployment)
        && count("updatedReplicas") >= wanted
        && count("replicas") == count("updatedReplicas")
        && count("availableReplicas") >= wanted
}

/// The last line that the container which crashed has written.
async fn last_words(client: &kube::Client, namespace: &str, pod: &str) -> String {
    for previous in ["&previous=true", ""] {
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods/{pod}/log?container={SIDECAR}&tailLines=1{previous}"
        );
        let Ok(request) = http::Request::get(path).body(Vec::new()) else { continue };
        if let Ok(text) = client.request_text(request).await
            && !text.trim().is_empty()
        {
            return format!("; last log line: {}", text.trim());
        }
    }
    String::new()
}

fn hint(runs_on: &Connection, namespace: &str) -> String {
    let kubectl = runs_on.cluster.kubectl();
    format!(
        "`{kubectl} -n {namespace} describe pods -l {SELECTOR}` shows the details; sidecars that ran before keep serving; \
         run install again, or `kubectl mc uninstall -n {namespace}`"
    )
}

/// Until the host's kube-apiserver has reached a sidecar.
pub(crate) async fn registration(
    client: &kube::Client,
    deadline: &Deadline,
    step: &mut Step<'_>,
) -> Result<(), InstallError> {
    let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}");
    loop {
        let registration = get(client, &path).await?;
        let conditions = registration["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let available = conditions.into_iter().find(|condition| condition["type"] == "Available");
        let available = available.unwrap_or_default();
        if available["status"] == "True" {
            return Ok(());
        }
        let text = |field: &str| available[field].as_str().unwrap_or_default().to_owned();
        let state = match text("reason") {
            reason if reason.is_empty() => "the host has not tried it yet".to_owned(),
            reason => format!("{reason}: {}", text("message")),
        };
        if deadline.is_over() {
            let hint = "the host's kube-apiserver must reach the pods' port: a firewall may need to admit it \
                        (--secure-port), or pods are not reachable at all (--host-network)";
            return Err(InstallError::NotReached { reason: state, hint: hint.to_owned() });
        }
        step.update(&state);
        sleep(POLL).await;
    }
}

const POLL: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rollout_is_complete_with_only_new_available_replicas() {
        let deployment =
            |status: Value| json!({"metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status});
        let whole =
            json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
        assert!(rolled_out(&deployment(whole.clone())));
        for (field, value) in
            [("observedGeneration", 1), ("replicas", 3), ("updatedReplicas", 1), ("availableReplicas", 1)]
        {
            let mut status = whole.clone();
            status[field] = value.into();
            assert!(!rolled_out(&deployment(status)), "{field}");
        }
        assert!(!rolled_out(&deployment(json!({}))));
    }

    #[test]
    fn old_replicas_are_counted_apart() {
        let deployment = |status: Value| json!({"spec": {"replicas": 2}, "status": status});
        assert_eq!(available(&deployment(json!({}))), "0 of 2 available");
        let both = json!({"replicas": 3, "updatedReplicas": 1, "availableReplicas": 2});
        assert_eq!(available(&deployment(both)), "2 of 2 available, 2 of the old version not replaced yet");
    }

    #[test]
    fn a_deadline_of_zero_is_none() {
        assert!(!Deadline::after(Duration::ZERO).is_over());
    }
}
