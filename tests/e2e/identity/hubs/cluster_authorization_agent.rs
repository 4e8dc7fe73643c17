//! karmada-agent itself under Cluster Authorization, with Karmada's own server: its registration,
//! its heartbeat, its elections and its Works are allowed, and nothing of another cluster is.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::bed::member;
use harness::karmada_host::KarmadaHost;
use harness::karmada_own::refusals;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use super::cluster_authorization::program;

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces";
const SECRETS: &str = "/api/v1/namespaces/karmada-cluster/secrets";
const WORKS: &str = "/apis/work.karmada.io/v1alpha1/namespaces";
const CONFIG_MAP: &str = "/api/v1/namespaces/default/configmaps/e2e-karmada-agent";
const FINALIZER: &str = "karmada.io/cluster-controller";
/// karmada-agent lists all Clusters.
const LISTS: &str = "--agents-list-clusters=Allow";

#[test]
fn karmada_agent_works_and_reaches_no_other_cluster() -> Result<()> {
    let host = KarmadaHost::with_karmada("k1", program())?.with_webhook_of(&[LISTS])?;
    host.apply_generated(&["a", "b", LISTS])?;
    host.api.create(CLUSTERS, &cluster("b"))?;
    let joined = member("m1")?;
    let on_member = Api::admin(joined)?;
    let mut agent = host.start_agent("a", joined)?;

    eventually("the agent has registered its cluster", 2 * SOON, || {
        // This reads its output as well.
        agent.stays(Duration::from_millis(500))?;
        host.api.get(&format!("{CLUSTERS}/a")).map(Some)
    })
    .with_context(|| agent.stderr())?;
    // karmada-controller-manager would set this: the agent waits for it.
    host.api.merge(&format!("{CLUSTERS}/a"), &json!({"metadata": {"finalizers": [FINALIZER]}}))?;
    let registered = eventually("the agent writes the status of its cluster", 2 * SOON, || {
        agent.stays(Duration::from_millis(500))?;
        let answer = host.api.request("GET", &format!("{CLUSTERS}/a"), "", "")?;
        let found: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
        let is_ready = conditions.clone().any(|one| one["type"] == "Ready" && one["status"] == "True");
        ensure!(is_ready, "it is not ready: {found}");
        Ok(Some(found))
    })
    .with_context(|| agent.stderr())?;
    ensure!(registered["status"]["kubernetesVersion"] == joined.version.as_str(), "{registered}");
    for name in ["a", "a-impersonator"] {
        let secret = host.api.get(&format!("{SECRETS}/{name}"))?;
        let owner = &secret["metadata"]["annotations"]["clusterrestriction.karmada.io/owner"];
        ensure!(owner == "a", "{secret}");
    }
    for lease in ["karmada-cluster/leases/a", "karmada-system/leases/karmada-agent-a"] {
        eventually("the agent holds its Lease", SOON, || {
            let answer = host.api.request("GET", &format!("{LEASES}/{lease}"), "", "")?;
            let found: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            Ok(found["spec"]["renewTime"].is_string().then_some(()))
        })?;
    }

    host.api.create(&format!("{WORKS}/karmada-es-a/works"), &work())?;
    eventually("the Work is applied, and says so", SOON, || {
        agent.stays(Duration::from_millis(500))?;
        let work = host.api.get(&format!("{WORKS}/karmada-es-a/works/w"))?;
        let conditions = work["status"]["conditions"].as_array().into_iter().flatten();
        let is_applied = conditions.clone().any(|one| one["type"] == "Applied" && one["status"] == "True");
        Ok(is_applied.then_some(()))
    })?;
    ensure!(on_member.get(CONFIG_MAP)?["data"]["key"] == "value");
    host.api.delete(&format!("{WORKS}/karmada-es-a/works/w"))?;
    eventually("the agent takes its finalizer off", SOON, || {
        let status = host.api.request("GET", &format!("{WORKS}/karmada-es-a/works/w"), "", "")?.status();
        Ok((status == 404).then_some(()))
    })?;
    // The agent leaves objects without Karmada's label alone.
    on_member.delete(CONFIG_MAP)?;

    // This uses the agent's certificate.
    let stolen = host.agent("a")?;
    for (method, path) in [
        ("GET", format!("{CLUSTERS}/b")),
        ("DELETE", format!("{CLUSTERS}/b")),
        ("GET", format!("{CLUSTERS}/b/status")),
        ("GET", format!("{CLUSTERS}/a/proxy/version")),
        ("GET", format!("{WORKS}/karmada-es-b/works")),
        ("GET", format!("{SECRETS}/b")),
        ("GET", format!("{LEASES}/karmada-cluster/leases/b")),
    ] {
        let text = stolen.expect(403, method, &path, None)?;
        ensure!(text.contains("kubectl-mc: "), "not the webhook's: {method} {path}: {text}");
    }
    agent.stays(Duration::from_secs(1))?;
    let log = agent.stderr();
    // The event of its election is in the namespace that all agents share, where it could be about
    // any other agent.
    let is_of_election =
        |line: &&str| line.contains("Reason:LeaderElection") && line.contains("karmada-system");
    let refused: Vec<_> = refusals(&log)?.into_iter().filter(|line| !is_of_election(line)).collect();
    ensure!(refused.is_empty(), "the agent lacks a right: {refused:#?}");
    Ok(())
}

fn cluster(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"syncMode": "Pull", "apiEndpoint": "https://192.0.2.1:6443"},
    })
}

/// A Work with one object.
fn work() -> Value {
    let config_map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e2e-karmada-agent", "namespace": "default"},
        "data": {"key": "value"},
    });
    json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        // This is what karmada-controller-manager writes.
        "metadata": {"name": "w", "finalizers": ["karmada.io/execution-controller"]},
        "spec": {"workload": {"manifests": [config_map]}},
    })
}
