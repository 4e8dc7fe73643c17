//! The sidecar maintains the RBAC of Karmada's agents: a new Cluster gets it, a change is undone,
//! and a deleted Cluster loses it. A thief of the sidecar's account can write nothing but the
//! rights of agents.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::karmada_host::KarmadaHost;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use super::cluster_authorization::program;

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const SECRETS: &str = "/api/v1/namespaces/karmada-cluster/secrets";
const APPLY: [&str; 6] = [
    "authz",
    "apply",
    "--for=karmada",
    "--kept-by-sidecar",
    "--without-webhook",
    "--without-admission-webhook",
];

#[test]
fn rbac_of_agents_follows_clusters_on_the_newest_host() -> Result<()> {
    rbac_follows_clusters("k1")
}

#[test]
fn rbac_of_agents_follows_clusters_on_the_oldest_host() -> Result<()> {
    rbac_follows_clusters("k2")
}

fn rbac_follows_clusters(name: &str) -> Result<()> {
    let host = KarmadaHost::take(name, program())?;
    host.install_account(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../sidecar/deploy"))?;
    host.plugin.ok(&APPLY)?;
    let keeper = host.start_keeper()?;
    host.api.create(CLUSTERS, &cluster("b", "Push"))?;

    // A registration wrote its RBAC first.
    host.grant_as_registered("a")?;
    host.api.create(CLUSTERS, &cluster("a", "Pull"))?;
    written(&host, "a")?;
    ensure!(!host.api.get(&paths("a")[0])?.to_string().contains("leases"), "the role was not narrowed");
    let agent = host.agent("a")?;
    eventually("the agent has its rights", SOON, || {
        Ok((agent.ask("GET", &format!("{SECRETS}/a"), None)?.0 == 404).then_some(()))
    })?;
    ensure!(present(&host, "b")? == 0, "a Cluster in push mode has no agent");

    changes_are_undone(&host)?;
    thief_writes_the_table_alone(&host, &keeper.token)?;

    host.api.merge(&format!("{CLUSTERS}/b"), &json!({"spec": {"syncMode": "Pull"}}))?;
    written(&host, "b")?;
    host.api.delete(&format!("{CLUSTERS}/a"))?;
    eventually("the RBAC of the deleted Cluster is gone", SOON, || {
        Ok((present(&host, "a")? == 0).then_some(()))
    })?;
    ensure!(present(&host, "b")? == paths("b").len(), "another agent lost its rights");

    host.plugin.ok(&["authz", "remove", "--for=karmada", "b", "--yes"])?;
    // Karmada creates the namespace after the Cluster. By then, the sidecar has handled another
    // change.
    host.api.create(CLUSTERS, &cluster("c", "Pull"))?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-es-c"}});
    host.api.create("/api/v1/namespaces", &namespace)?;
    written(&host, "c")?;
    ensure!(present(&host, "b")? == 0, "the sidecar gave back what an administrator has taken");
    let annotations = host.api.get(&format!("{CLUSTERS}/b"))?["metadata"]["annotations"].clone();
    ensure!(annotations["fleet.kubectl-mc.dev/agent-rbac"] == "None", "{annotations}");
    host.api.merge(
        &format!("{CLUSTERS}/b"),
        &json!({"metadata": {"annotations": {"fleet.kubectl-mc.dev/agent-rbac": null}}}),
    )?;
    written(&host, "b")?;

    host.plugin.ok(&["authz", "remove", "--for=karmada", "--yes"])?;
    for kind in ["clusterroles", "clusterrolebindings"] {
        let path = format!("{RBAC}/{kind}/kubectl-mc-karmada-keeper");
        ensure!(host.api.request("GET", &path, "", "")?.status() == 404, "{path} is left");
    }
    Ok(())
}

fn changes_are_undone(host: &KarmadaHost) -> Result<()> {
    for path in paths("a") {
        let before = host.api.get(&path)?;
        host.api.delete(&path)?;
        eventually("what was deleted is back", SOON, || {
            let answer = host.api.request("GET", &path, "", "")?;
            let now: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let fields = ["rules", "roleRef", "subjects"];
            Ok(fields.iter().all(|field| now[field] == before[field]).then_some(()))
        })?;
    }
    let everything = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let mallory =
        json!({"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}]});
    for (path, wider) in paths("a").iter().flat_map(|path| [(path, &everything), (path, &mallory)]) {
        let field = if path.contains("bindings/") { "subjects" } else { "rules" };
        if wider[field].is_null() {
            continue;
        }
        let before = host.api.get(path)?;
        host.api.merge(path, wider)?;
        eventually("what was widened is put back", SOON, || {
            Ok((host.api.get(path)?[field] == before[field]).then_some(()))
        })?;
    }
    // The role of a binding cannot be changed, so the binding is replaced.
    let path = &paths("a")[1];
    let mut other = host.api.get(path)?;
    other["roleRef"]["name"] = "view".into();
    other["metadata"] = json!({"name": other["metadata"]["name"], "labels": other["metadata"]["labels"]});
    host.api.delete(path)?;
    let answer = host.api.request(
        "POST",
        &format!("{RBAC}/clusterrolebindings"),
        "application/json",
        &other.to_string(),
    )?;
    // The sidecar may have been faster.
    ensure!([201, 409].contains(&answer.status()), "{}", answer.text());
    eventually("the binding has its role again", SOON, || {
        let answer = host.api.request("GET", path, "", "")?;
        let now: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        Ok((now["roleRef"]["name"] == "system:karmada:a:agent").then_some(()))
    })
}

fn thief_writes_the_table_alone(host: &KarmadaHost, token: &str) -> Result<()> {
    let thief = Api::bearer(host.cluster, token)?;
    let tried = |path: &str, object: &Value| -> Result<(u16, String)> {
        let path = format!("{path}?fieldManager=e2e-thief&force=true&dryRun=All");
        let answer = thief.request("PATCH", &path, "application/apply-patch+yaml", &object.to_string())?;
        Ok((answer.status(), answer.text().to_owned()))
    };
    let bare = |path: &str| -> Result<Value> {
        let mut object = host.api.get(path)?;
        object["metadata"] =
            json!({"name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"]});
        if object["metadata"]["namespace"].is_null() {
            object["metadata"].as_object_mut().context("no metadata")?.remove("namespace");
        }
        Ok(object)
    };
    for path in paths("a") {
        let object = bare(&path)?;
        let (code, text) = tried(&path, &object)?;
        ensure!(code == 200, "the table is refused: {path}: {code}: {text}");
        let mut wider = object.clone();
        if path.contains("bindings/") {
            wider["subjects"][0]["name"] = "mallory".into();
        } else {
            wider["rules"][0]["verbs"] = json!(["*"]);
        }
        let mut spread = object.clone();
        spread["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
        for other in [&wider, &spread] {
            let (code, text) = tried(&path, other)?;
            ensure!(code == 403 && text.contains(KEEPER), "{path}: {code}: {text}");
        }
        let (place, name) = path.rsplit_once('/').context("no name")?;
        let mut renamed = object.clone();
        renamed["metadata"]["name"] = "mine".into();
        let (code, text) = tried(&format!("{place}/mine"), &renamed)?;
        // The policy on ClusterAccesses refuses it as well, and may be the first to do so.
        ensure!(code == 403 && text.contains("ValidatingAdmissionPolicy"), "{name} as mine: {code}: {text}");
        if path.contains("/namespaces/") {
            let elsewhere =
                path.replace(object["metadata"]["namespace"].as_str().unwrap_or_default(), "kube-system");
            let mut moved = object;
            moved["metadata"]["namespace"] = "kube-system".into();
            let (code, text) = tried(&elsewhere, &moved)?;
            ensure!(code == 403 && text.contains(KEEPER), "{elsewhere}: {code}: {text}");
        }
    }
    for path in ["clusterroles/cluster-admin", "clusterrolebindings/kubectl-mc-karmada-keeper"] {
        let answer = thief.request("DELETE", &format!("{RBAC}/{path}?dryRun=All"), "", "")?;
        ensure!(answer.status() == 403, "{path}: {} {}", answer.status(), answer.text());
    }
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let answer =
        thief.request("DELETE", &format!("{policies}/kubectl-mc-karmada-keeper?dryRun=All"), "", "")?;
    ensure!(answer.status() == 403, "{} {}", answer.status(), answer.text());
    Ok(())
}

/// The objects of the agent of a cluster: the ClusterRole and its binding first.
fn paths(cluster: &str) -> Vec<String> {
    let execution = format!("karmada-es-{cluster}");
    let places = [
        ("", "agent"),
        ("default", "agent-events"),
        ("karmada-cluster", "agent-secret"),
        (&execution, "agent-work"),
        ("karmada-system", "agent-election"),
    ];
    let pair = |(namespace, suffix): (&str, &str)| {
        let name = format!("system:karmada:{cluster}:{suffix}");
        match namespace {
            "" => ["clusterroles", "clusterrolebindings"].map(|kind| format!("{RBAC}/{kind}/{name}")),
            _ => ["roles", "rolebindings"].map(|kind| format!("{RBAC}/namespaces/{namespace}/{kind}/{name}")),
        }
    };
    places.into_iter().flat_map(pair).collect()
}

/// How many of them there are.
fn present(host: &KarmadaHost, cluster: &str) -> Result<usize> {
    let mut count = 0;
    for path in paths(cluster) {
        count += usize::from(host.api.request("GET", &path, "", "")?.status() == 200);
    }
    Ok(count)
}

/// Waits until the sidecar has written all of them.
fn written(host: &KarmadaHost, cluster: &str) -> Result<()> {
    eventually("the agent's RBAC is written", 2 * SOON, || {
        for path in paths(cluster) {
            let answer = host.api.request("GET", &path, "", "")?;
            let object: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let keeper = &object["metadata"]["labels"]["fleet.kubectl-mc.dev/kept-by"];
            ensure!(keeper == "kubectl-mc-system", "{path}: {object}");
        }
        Ok(Some(()))
    })
}

fn cluster(name: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"syncMode": mode},
    })
}

const KEEPER: &str = "kubectl-mc-karmada-keeper";
