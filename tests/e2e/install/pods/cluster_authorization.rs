//! Cluster Authorization by sidecars in pods, in the steps of the how-to page: the kube-apiserver
//! asks them through the Service of their webhooks.

use std::process::Command;

use anyhow::{Result, ensure};
use harness::karmada_host::KarmadaHost;
use harness::spare_host::SIDECAR;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};

use crate::install::pods::in_pods::program;

#[test]
fn kube_apiserver_asks_the_service_of_the_webhooks() -> Result<()> {
    let mut host = KarmadaHost::take("s4", program())?;
    for cluster in ["a", "b"] {
        host.grant_as_registered(cluster)?;
    }
    let authz = |host: &KarmadaHost, verb: &str, more: &[&str]| {
        host.plugin.run(&[&["authz", verb, "--for=karmada", LISTS], more].concat())
    };
    let before = authz(&host, "verify", &[])?;
    ensure!(before.code == 1 && before.text().contains("too wide"), "{before:?}");
    let homeless = authz(&host, "apply", &["--without-admission-webhook"])?;
    homeless.failure(&["install the sidecar first: kubectl mc --context=s4 install"])?;
    let install = ["install", "--image", SIDECAR, "--image-pull-policy=Never"];
    host.plugin.ok(&install)?;
    authz(&host, "apply", &["--without-admission-webhook"])?.success()?;
    let webhooks = [
        "--sidecar-flag=--authorization-webhook-port=10270",
        "--sidecar-flag=--admission-webhook-port=10271",
        "--sidecar-flag=--agents-list-clusters=Allow",
    ];
    host.plugin.ok(&[&install[..], &webhooks].concat())?;
    authz(&host, "apply", &[])?.success()?;
    let kubectl = Tool::admin(host.cluster)?;
    let _route = ServiceRoute::add(&kubectl)?;
    host.ask_webhook(&[LISTS])?;
    eventually("every right is exact", 2 * SOON, || {
        let verified = authz(&host, "verify", &["a", "b"])?;
        ensure!(verified.text().starts_with("the agents of 2 clusters have exactly"), "{verified:?}");
        Ok(Some(()))
    })?;

    let agent = host.agent("a")?;
    agent.expect(404, "GET", &secret("a"), None)?;
    let denied = agent.expect(403, "GET", &secret("b"), None)?;
    ensure!(denied.contains("kubectl-mc: "), "{denied}");

    // Without a sidecar, only agents are refused.
    kubectl.ok(&["-n", "kubectl-mc-system", "scale", "deployment", "mc-sidecar", "--replicas=0"])?;
    eventually("the agent is refused", 2 * SOON, || {
        Ok([403, 500].contains(&agent.ask("GET", &secret("a"), None)?.0).then_some(()))
    })?;
    kubectl.ok(&["get", "secrets", "-n", "karmada-cluster"])?;
    Ok(())
}

/// The bed's kube-apiservers run next to the node and not on it, so they need a route to the
/// address of a Service, which kube-proxy on the node serves.
struct ServiceRoute([String; 3]);

impl ServiceRoute {
    fn add(kubectl: &Tool) -> Result<Self> {
        let service = ["get", "service", "-n", "kubectl-mc-system", "mc-sidecar-authorization", "-o"];
        let service = kubectl.ok(&[&service[..], &["jsonpath={.spec.clusterIP}"]].concat())?;
        let node = kubectl.ok(&["get", "nodes", "-o", "jsonpath={.items[0].status.addresses[0].address}"])?;
        let route = Self([format!("{service}/32"), "via".to_owned(), node]);
        ensure!(route.change("replace")?, "there is no route {:?}", route.0);
        Ok(route)
    }

    fn change(&self, verb: &str) -> Result<bool> {
        Ok(Command::new("ip").args(["route", verb]).args(&self.0).status()?.success())
    }
}

impl Drop for ServiceRoute {
    fn drop(&mut self) {
        let _ = self.change("del");
    }
}

fn secret(name: &str) -> String {
    format!("/api/v1/namespaces/karmada-cluster/secrets/{name}")
}

/// karmada-agent lists all Clusters.
const LISTS: &str = "--agents-list-clusters=Allow";
