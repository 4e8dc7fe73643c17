//! Waits until the sidecars are available and the host reaches them, reports the progress, and
//! stops early on problems that waiting cannot solve.

use std::net::SocketAddr;
use std::time::Duration;

use kubectl_mc_api::manifests::{Reach, SELECTOR};
use kubectl_mc_api::names::{API_SERVICE, SIDECAR};
use kubectl_mc_api::path::PROXY_GROUP_VERSION;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::get;
use crate::cluster::connection::Connection;
use crate::cluster::fields::condition;
use crate::cluster::pods::{self, Problem};
use crate::error::{CommandLine, Failure, Hint};
use crate::progress::Step;

/// The end of the wait; a duration of 0 means no deadline.
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn after(duration: Duration) -> Self {
        Self((!duration.is_zero()).then(|| Instant::now() + duration))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

/// Waits until all replicas of the new version are available.
pub(crate) async fn deployment(
    runs_on: &Connection,
    uninstall: &str,
    namespace: &str,
    deadline: &Deadline,
    step: &mut Step<'_>,
) -> Result<(), Failure> {
    let client = &runs_on.client;
    let of_namespace = format!("namespaces/{namespace}");
    let path = format!("/apis/apps/v1/{of_namespace}/deployments/{SIDECAR}");
    let selected = format!("?labelSelector={}", SELECTOR.replace('=', "%3D"));
    let mut retried = false;
    loop {
        let deployment = get(client, &path).await?;
        if pods::rolled_out(&deployment) {
            return Ok(());
        }
        let mut problem = pods::of_deployment(&deployment);
        if pods::is_observed(&deployment) {
            let sets = get(client, &format!("/apis/apps/v1/{of_namespace}/replicasets{selected}")).await?;
            let list = get(client, &format!("/api/v1/{of_namespace}/pods{selected}")).await?;
            let newest = pods::newest(&sets, list);
            if !std::mem::replace(&mut retried, true)
                && pods::replace_failed(client, namespace, &newest).await
            {
                continue;
            }
            problem = newest.iter().filter_map(Problem::of).max_by_key(Problem::is_final).or(problem);
        }
        let available = available(&deployment);
        let state =
            problem.as_ref().map_or_else(|| available.clone(), |problem| format!("{available}: {problem}"));
        if deadline.is_over() || problem.as_ref().is_some_and(Problem::is_final) {
            let mut reason = state;
            if let Some(pod) = problem.as_ref().and_then(Problem::crashed) {
                reason = format!("{reason}{}", pods::last_words(client, namespace, pod, SIDECAR).await);
            }
            let failure = Failure::new(format!("the sidecars are not available: {reason}"));
            return Err(failure.with_hint(hint(runs_on, namespace, uninstall)));
        }
        step.update(&state);
        sleep(POLL).await;
    }
}

/// Describes the progress. Replicas of the old version may be available while the new ones are not.
fn available(deployment: &Value) -> String {
    let count = |field: &str| deployment["status"][field].as_u64().unwrap_or(0);
    let before = match count("replicas").saturating_sub(count("updatedReplicas")) {
        0 => String::new(),
        before => format!(", {before} of the old version not replaced yet"),
    };
    format!("{} of {} available{before}", count("availableReplicas"), deployment["spec"]["replicas"])
}

fn hint(runs_on: &Connection, namespace: &str, uninstall: &str) -> Hint {
    let kubectl = runs_on.cluster.kubectl();
    CommandLine::new(format!("{kubectl} -n {namespace} describe pods -l {SELECTOR}"))
        .that("shows the details; sidecars that ran before keep serving; run install again, or `")
        .then(CommandLine::new(uninstall))
        .then("`")
}

/// Waits until the host's kube-apiserver forwards requests to a sidecar. An APIService is Available
/// as soon as the sidecar accepts a connection, regardless of its certificate: only a response
/// shows that the host also trusts its authority.
pub(crate) async fn registration(
    client: &kube::Client,
    reach: Option<&Reach>,
    deadline: &Deadline,
    step: &mut Step<'_>,
) -> Result<(), Failure> {
    loop {
        let Some(state) = obstacle(client).await? else { return Ok(()) };
        if deadline.is_over() {
            let failure = Failure::new(format!("the host cannot reach the sidecars: {state}"));
            return Err(failure.with_hint(way(reach)));
        }
        step.update(&state);
        sleep(POLL).await;
    }
}

/// Why the host does not forward requests to a sidecar; `None` if it does.
async fn obstacle(host: &kube::Client) -> Result<Option<String>, Failure> {
    let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}");
    if let Some(reason) = unavailable(&get(host, &path).await?) {
        return Ok(Some(reason));
    }
    Ok(match get(host, &format!("/apis/{PROXY_GROUP_VERSION}")).await {
        Ok(served) if served["resources"].is_array() => None,
        Ok(_) => Some(format!("{PROXY_GROUP_VERSION} is not served yet")),
        Err(error) => Some(error.to_string()),
    })
}

/// Why an APIService is not available; `None` if it is.
fn unavailable(registration: &Value) -> Option<String> {
    let available = condition(registration, "Available");
    let text = |field: &str| available.and_then(|available| available[field].as_str()).unwrap_or_default();
    match (text("status"), text("reason")) {
        ("True", _) => None,
        (_, "") => Some("the host has not tried it yet".to_owned()),
        (_, reason) => Some(format!("{reason}: {}", text("message"))),
    }
}

/// The requirement for the host to reach the sidecars, as a hint.
fn way(reach: Option<&Reach>) -> String {
    match reach {
        None => "the host's kube-apiserver must reach the pods' port: a firewall may need to admit it \
                 (--secure-port), or pods are not reachable at all (--host-network)"
            .to_owned(),
        Some(Reach::Name(name)) => format!(
            "the host's kube-apiserver must look up {name} and reach its port 443, and must run without \
             --enable-aggregator-routing; --endpoint=IP:PORT needs neither"
        ),
        Some(Reach::Addresses(addresses, port)) => {
            let addresses = addresses.iter().map(|address| SocketAddr::new(*address, *port).to_string());
            format!(
                "the host's kube-apiserver must reach the sidecars at {}: --endpoint=IP:PORT names their addresses, \
                 and --host-network serves them on the nodes' port 10260",
                addresses.collect::<Vec<_>>().join(", ")
            )
        }
    }
}

const POLL: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    #[test]
    fn old_replicas_are_counted_separately() {
        let deployment = |status: Value| json!({"spec": {"replicas": 2}, "status": status});
        assert_eq!(available(&deployment(json!({}))), "0 of 2 available");
        let both = json!({"replicas": 3, "updatedReplicas": 1, "availableReplicas": 2});
        assert_eq!(available(&deployment(both)), "2 of 2 available, 2 of the old version not replaced yet");
    }

    #[tokio::test]
    async fn install_waits_while_host_refuses_the_certificate() {
        let untrusted = "error trying to reach service: x509: certificate signed by unknown authority";
        let answers =
            [(503, untrusted.to_owned()), (404, String::new()), (200, json!({"resources": []}).to_string())];
        let mut found = Vec::new();
        for answer in answers {
            let host = tower::service_fn(move |request: http::Request<Body>| {
                let available = json!({"conditions": [{"type": "Available", "status": "True"}]});
                let registration = (200, json!({"status": available}).to_string());
                let is_registration = request.uri().path().contains("apiservices");
                let (code, body) = if is_registration { registration } else { answer.clone() };
                let answer = http::Response::builder().status(code).body(Body::from(body.into_bytes()));
                std::future::ready(answer.map_err(std::io::Error::other))
            });
            found.push(obstacle(&kube::Client::new(host, "default")).await.unwrap());
        }
        let [refused, missing, served] = &found[..] else { panic!("{found:?}") };
        assert!(refused.as_ref().is_some_and(|state| state.contains(untrusted)), "{refused:?}");
        assert_eq!(missing.as_deref(), Some("proxy.kubectl-mc.dev/v1alpha1 is not served yet"));
        assert_eq!(*served, None);
    }

    #[test]
    fn hint_names_the_configured_address() {
        assert!(way(None).contains("--host-network"));
        assert!(way(Some(&Reach::Name("sidecar.example".to_owned()))).contains("look up sidecar.example"));
        let addresses = vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        assert!(way(Some(&Reach::Addresses(addresses, 10260))).contains(" 10.0.0.1:10260, [fd00::1]:10260:"));
    }

    #[test]
    fn zero_timeout_means_no_deadline() {
        assert!(!Deadline::after(Duration::ZERO).is_over());
    }
}
