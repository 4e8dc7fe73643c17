//! Determines from the status of pods why they are not ready.

use std::fmt;

use serde_json::Value;

use crate::cluster::fields::{condition, into_items, items};

/// Why a pod is not ready.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    pod: String,
    reason: String,
    message: String,
}

impl Problem {
    pub(crate) fn of(pod: &Value) -> Option<Self> {
        if pod["metadata"]["deletionTimestamp"].is_string() {
            return None;
        }
        let problem = |reason: &Value, message: &Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            Self { pod: text(&pod["metadata"]["name"]), reason: text(reason), message: text(message) }
        };
        let containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        for container in containers {
            let waiting = &container["state"]["waiting"];
            let reason = waiting["reason"].as_str().unwrap_or_default();
            if reason == "CrashLoopBackOff" {
                let ended = &container["lastState"]["terminated"]["exitCode"];
                return Some(problem(&waiting["reason"], &format!("exit code {ended}").into()));
            }
            if !reason.is_empty() && reason != "ContainerCreating" && reason != "PodInitializing" {
                return Some(problem(&waiting["reason"], &waiting["message"]));
            }
        }
        let scheduled = condition(pod, "PodScheduled").filter(|scheduled| scheduled["status"] == "False")?;
        Some(problem(&scheduled["reason"], &scheduled["message"]))
    }

    /// Whether waiting cannot solve the problem.
    pub(crate) fn is_final(&self) -> bool {
        FINAL.contains(&self.reason.as_str())
    }

    /// The pod whose log may give more details.
    pub(crate) fn crashed(&self) -> Option<&str> {
        (self.reason == "CrashLoopBackOff").then_some(&*self.pod)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pod.is_empty() {
            write!(f, "pod {}: ", self.pod)?;
        }
        f.write_str(&self.reason)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// Whether the Deployment's controller has observed the latest generation.
pub(crate) fn is_observed(deployment: &Value) -> bool {
    deployment["status"]["observedGeneration"].as_u64() >= deployment["metadata"]["generation"].as_u64()
}

/// Whether the rollout is complete, by the rules of `kubectl rollout status`.
pub(crate) fn rolled_out(deployment: &Value) -> bool {
    let (status, wanted) = (&deployment["status"], deployment["spec"]["replicas"].as_u64().unwrap_or(1));
    let count = |field: &str| status[field].as_u64().unwrap_or(0);
    is_observed(deployment)
        && count("updatedReplicas") >= wanted
        && count("replicas") == count("updatedReplicas")
        && count("availableReplicas") >= wanted
}

/// Deletes the pods that failed before this command, so that the kubelet retries immediately: after some
/// failures it waits for up to 5 minutes, and the pod's state is that of the last attempt. Returns whether
/// there was one.
pub(crate) async fn replace_failed(client: &kube::Client, namespace: &str, pods: &[Value]) -> bool {
    let failed = pods.iter().filter(|pod| Problem::of(pod).is_some_and(|problem| problem.is_final()));
    let mut replaced = false;
    for name in failed.filter_map(|pod| pod["metadata"]["name"].as_str()) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let Ok(request) = http::Request::delete(path).body(Vec::new()) else { continue };
        replaced |= client.request_text(request).await.is_ok();
    }
    replaced
}

/// Why a Deployment creates no pods, such as a quota or pod security.
pub(crate) fn of_deployment(deployment: &Value) -> Option<Problem> {
    let failure = condition(deployment, "ReplicaFailure").filter(|failure| failure["status"] == "True")?;
    let text = |field: &str| failure[field].as_str().unwrap_or_default().to_owned();
    Some(Problem { pod: String::new(), reason: text("reason"), message: text("message") })
}

/// Why no pod of a Deployment's latest version is ready; `None` if one is.
pub(crate) fn not_ready(deployment: &Value) -> Option<String> {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let (status, generation) = (&deployment["status"], number(&deployment["metadata"]["generation"]));
    let [updated, all, ready] =
        ["updatedReplicas", "replicas", "readyReplicas"].map(|field| number(&status[field]));
    // The ready pods may be old ones that still exist.
    let is_new = number(&status["observedGeneration"]) >= generation && updated > 0 && ready + updated > all;
    (!is_new).then(|| format!("{ready} of {all} pods are ready"))
}

/// Why pods of an older version may still be in use; `None` if only new ones are left.
pub(crate) fn not_replaced(deployment: &Value) -> Option<String> {
    let count = |field: &str| deployment["status"][field].as_u64().unwrap_or(0);
    let before = count("replicas").saturating_sub(count("updatedReplicas"));
    let is_replaced = is_observed(deployment) && before == 0 && count("readyReplicas") > 0;
    (!is_replaced).then(|| format!("{before} of {} pods are not replaced yet", count("replicas")))
}

/// The pods of a Deployment's latest version, from the lists of all its ReplicaSets and pods.
pub(crate) fn newest(sets: &Value, pods: Value) -> Vec<Value> {
    let revision = |set: &Value| {
        let revision = set["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str();
        revision.and_then(|revision| revision.parse::<u64>().ok())
    };
    let hash = |object: &Value| object["metadata"]["labels"][HASH].as_str().map(str::to_owned);
    let Some(newest) = items(sets).max_by_key(|set| revision(set)).and_then(hash) else { return Vec::new() };
    let mut pods = into_items(pods);
    pods.retain(|pod| hash(pod).as_ref() == Some(&newest));
    pods
}

/// The last line in the log of the crashed container.
pub(crate) async fn last_words(client: &kube::Client, namespace: &str, pod: &str, container: &str) -> String {
    for previous in ["&previous=true", ""] {
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}&tailLines=1{previous}"
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

const HASH: &str = "pod-template-hash";
const FINAL: &[&str] = &[
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(state: Value) -> Value {
        json!({
            "metadata": {"name": "mc-sidecar-1"},
            "status": {"containerStatuses": [{"state": {"waiting": state}, "lastState": {"terminated": {"exitCode": 64}}}]},
        })
    }

    #[test]
    fn deployment_is_ready_once_a_new_pod_is_ready() {
        let deployment = |observed: u64, all: u64, updated: u64, ready: u64| {
            json!({"metadata": {"generation": 2}, "status": {
                "observedGeneration": observed, "replicas": all, "updatedReplicas": updated, "readyReplicas": ready,
            }})
        };
        for ready in [deployment(2, 2, 2, 1), deployment(2, 3, 1, 3), deployment(3, 1, 1, 1)] {
            assert_eq!(not_ready(&ready), None, "{ready}");
        }
        for other in [deployment(1, 2, 2, 2), deployment(2, 3, 1, 2), deployment(2, 2, 0, 2), json!({})] {
            assert!(not_ready(&other).is_some(), "{other}");
        }
    }

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
    fn terminating_pod_is_not_a_problem() {
        let mut failed = pod(json!({"reason": "ImagePullBackOff"}));
        assert!(Problem::of(&failed).is_some());
        failed["metadata"]["deletionTimestamp"] = "2026-11-25T00:00:00Z".into();
        assert_eq!(Problem::of(&failed), None);
    }

    #[tokio::test]
    async fn only_failed_pods_are_replaced() {
        let (sender, deleted) = std::sync::mpsc::channel();
        let member = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let _ = sender.send(format!("{} {}", request.method(), request.uri().path()));
            let answer = http::Response::new(kube::client::Body::from(b"{}".to_vec()));
            std::future::ready(Ok::<_, std::convert::Infallible>(answer))
        });
        let client = kube::Client::new(member, "default");
        let failed = pod(json!({"reason": "ImagePullBackOff"}));
        let mut pending = pod(json!({"reason": "ContainerCreating"}));
        pending["metadata"]["name"] = "mc-sidecar-2".into();
        assert!(!replace_failed(&client, "n", std::slice::from_ref(&pending)).await);
        assert!(replace_failed(&client, "n", &[pending, failed]).await);
        assert_eq!(deleted.try_iter().collect::<Vec<_>>(), ["DELETE /api/v1/namespaces/n/pods/mc-sidecar-1"]);
    }

    #[test]
    fn deployment_is_replaced_when_old_pods_are_gone() {
        let deployment = |observed: u64, all: u64, updated: u64, ready: u64| {
            json!({"metadata": {"generation": 2}, "status": {
                "observedGeneration": observed, "replicas": all, "updatedReplicas": updated, "readyReplicas": ready,
            }})
        };
        assert_eq!(not_replaced(&deployment(2, 2, 2, 1)), None);
        for other in [deployment(1, 2, 2, 2), deployment(2, 3, 2, 3), deployment(2, 2, 2, 0)] {
            assert!(not_replaced(&other).is_some(), "{other}");
        }
    }

    #[test]
    fn image_pull_failure_comes_with_its_message() {
        let backing_off =
            pod(json!({"reason": "ImagePullBackOff", "message": "Back-off pulling image \"x\""}));
        let problem = Problem::of(&backing_off).unwrap();
        assert!(problem.is_final());
        assert_eq!(problem.to_string(), "pod mc-sidecar-1: ImagePullBackOff: Back-off pulling image \"x\"");
        // The first failure may be a transient error of the registry.
        let first = Problem::of(&pod(json!({"reason": "ErrImagePull", "message": "m"}))).unwrap();
        assert!(!first.is_final());
    }

    #[test]
    fn crashing_pod_hint_names_its_log() {
        let problem =
            Problem::of(&pod(json!({"reason": "CrashLoopBackOff", "message": "back-off"}))).unwrap();
        assert_eq!(problem.crashed(), Some("mc-sidecar-1"));
        assert_eq!(problem.to_string(), "pod mc-sidecar-1: CrashLoopBackOff: exit code 64");
    }

    #[test]
    fn pending_pod_is_not_a_final_problem() {
        assert_eq!(Problem::of(&pod(json!({"reason": "ContainerCreating"}))), None);
        let pending = json!({
            "metadata": {"name": "p"},
            "status": {"conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"},
            ]},
        });
        let problem = Problem::of(&pending).unwrap();
        assert_eq!(problem.to_string(), "pod p: Unschedulable: 0/1 nodes");
        assert!(!problem.is_final());
    }

    #[test]
    fn only_pods_of_the_newest_version_are_checked() {
        let set = |revision: &str, hash: &str| {
            json!({"metadata": {
                "annotations": {"deployment.kubernetes.io/revision": revision}, "labels": {HASH: hash},
            }})
        };
        let sets = json!({"items": [set("9", "old"), set("10", "new")]});
        let pod = |hash: &str| json!({"metadata": {"labels": {HASH: hash}}});
        let pods = json!({"items": [pod("new"), pod("old"), {}]});
        assert_eq!(newest(&sets, pods.clone()), [pod("new")]);
        assert!(newest(&json!({}), pods).is_empty());
    }
}
