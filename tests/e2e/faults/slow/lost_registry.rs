//! The registry is protected against deletion while there are members, and lost objects are written
//! back. The host is a spare cluster, tested with the oldest and the newest version that a host may
//! have.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::bed::{SYSTEM, spare};
use harness::leftovers::Clean;
use harness::own_agent::OwnAgent;
use harness::process_host::{API_SERVICE, MEMBER_CLUSTERS, ProcessHost, secret_path};
use harness::tool::Tool;
use harness::turn::Turn;
use harness::wait::{SOON, eventually};
use serde_json::json;
use testbed::programs;

#[test]
fn fault_77_lost_registry_is_restored_on_newest_host() -> Result<()> {
    protected_and_restored("k1")
}

#[test]
fn fault_77_lost_registry_is_restored_on_oldest_host() -> Result<()> {
    protected_and_restored("k2")
}

/// Only the plugin itself lifts the policy, and it looks for members first.
#[test]
fn fault_77_uninstall_removes_the_protected_registry() -> Result<()> {
    let (host, _agent) = begin("k1")?;
    let tried = host.plugin.ok(&["uninstall", "--dry-run"])?;
    ensure!(tried.contains(&format!("{DEFINITION} deleted (server dry run)")), "{tried}");
    let definition = host.api.get(DEFINITIONS_OF_MEMBERS)?;
    ensure!(definition["metadata"]["annotations"]["fleet.kubectl-mc.dev/allow-deletion"].is_null());

    // An uninstall that was interrupted after it had lifted the protection and before the next
    // step.
    host.kubectl.ok(&["annotate", "namespace", "kubectl-mc-agents", LIFTED])?;
    let removed = host.plugin.ok(&["uninstall", "--yes", "--timeout=2m"])?;
    for object in [DEFINITION, "apiservice.apiregistration.k8s.io/v1alpha1.proxy.kubectl-mc.dev"] {
        ensure!(removed.contains(&format!("{object} deleted")), "{removed}");
    }
    for namespace in ["kubectl-mc-system", "kubectl-mc-agents"] {
        ensure!(removed.contains(&format!("namespace/{namespace} deleted")), "{removed}");
    }
    Ok(())
}

/// Helm deletes the APIService first, and the policies last. No pod runs here.
#[test]
fn fault_77_helm_uninstall_keeps_what_members_need() -> Result<()> {
    let (_turn, clean) = (Turn::take("k1")?, Clean::take(spare("k1")?)?);
    let helm = Tool::plugin_at(&programs::build_helm()?, &[clean.cluster])?;
    let (kubectl, api) = (Tool::admin(clean.cluster)?, Api::admin(clean.cluster)?);
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sidecar/deploy/chart").display().to_string();
    let namespace = format!("--namespace={SYSTEM}");
    let install = [
        "install",
        "proxy",
        &chart,
        &namespace,
        "--create-namespace",
        "--set=image.repository=none.example/i",
    ];
    helm.ok(&install)?;
    let m1 = json!({
        "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster",
        "metadata": {"name": "m1"}, "spec": {},
    });
    api.create(MEMBER_CLUSTERS, &m1)?;
    until_in_force(&kubectl)?;
    helm.ok(&["uninstall", "proxy", &namespace])?;
    ensure!(api.get(API_SERVICE).is_err(), "the APIService is left");
    api.get(&format!("{MEMBER_CLUSTERS}/m1"))?;
    api.get("/api/v1/namespaces/kubectl-mc-agents")?;
    // A release of the same name takes over the objects that are kept.
    helm.ok(&install).map(drop)
}

fn protected_and_restored(name: &str) -> Result<()> {
    let (host, agent) = begin(name)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let load = scope.spawn(|| load(&host, &stop));
        let refused = deletions_are_refused(&host);
        stop.store(true, Ordering::Relaxed);
        let served = load.join().map_err(|_| anyhow::anyhow!("the load panicked"))?;
        refused?;
        served
    })?;
    until_recorded(&host)?;
    lose(&host, &agent)?;
    others_are_deleted(&host)?;

    let doctor = host.plugin.run(&["doctor", "--no-streams"])?;
    ensure!(
        doctor.text().contains("the definition of MemberClusters is missing; members with a Secret"),
        "{doctor:?}"
    );
    ensure!(doctor.text().contains("join --restore"), "{doctor:?}");
    let asked = host.plugin.run(&["join", "--restore"])?;
    asked.failure(&["labels env=prod", "cannot ask for confirmation", "--yes"])?;
    let tried = host.plugin.ok(&["join", "--restore", "--dry-run"])?;
    ensure!(tried.contains("membercluster.fleet.kubectl-mc.dev/m1 created (server dry run)"), "{tried}");
    ensure!(host.api.get(DEFINITIONS_OF_MEMBERS).is_err(), "a dry run creates nothing");
    let restored = host.plugin.ok(&["join", "--restore", "--yes"])?;
    for object in
        [DEFINITION, "membercluster.fleet.kubectl-mc.dev/far", "membercluster.fleet.kubectl-mc.dev/m1"]
    {
        ensure!(restored.contains(&format!("{object} created")), "{restored}");
    }
    let m1 = host.api.get(&format!("{MEMBER_CLUSTERS}/m1"))?;
    ensure!(m1["metadata"]["labels"] == json!({"env": "prod"}), "{m1:#}");
    ensure!(m1["spec"]["impersonation"]["uid"] == "Omit", "{m1:#}");
    host.until_reached("m1", 2 * SOON)?;
    // In the meantime, the agent was refused, and it waits up to five minutes between its attempts.
    host.until_reached("far", Duration::from_secs(320))?;
    let nothing = host.plugin.ok(&["join", "--restore"])?;
    ensure!(nothing.contains("every member with a Secret"), "{nothing}");
    until_in_force(&host.kubectl)
}

/// A host with member m1, and with member `far` through an agent.
fn begin(name: &str) -> Result<(ProcessHost, OwnAgent)> {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sidecar/deploy");
    let host = ProcessHost::start(name, &deploy, Path::new(env!("CARGO_BIN_EXE_kubectl-mc")))?;
    host.register("m1", &json!({"env": "prod"}), false)?;
    host.register("far", &json!({}), true)?;
    let agent = host.agent("far")?;
    host.until_reached("m1", SOON)?;
    host.until_reached("far", SOON)?;
    until_in_force(&host.kubectl)?;
    Ok((host, agent))
}

/// A kube-apiserver reads new policies every second, and looks for new kinds every 30 s.
fn until_in_force(kubectl: &Tool) -> Result<()> {
    eventually("the policy is in force", 3 * SOON, || {
        let deleted = kubectl.run(&["delete", "crd", MEMBERS, "--dry-run=server"])?;
        ensure!(deleted.code != 0, "{deleted:?}");
        Ok(Some(()))
    })
}

/// Sends requests to both members. Each of them is answered.
fn load(host: &ProcessHost, stop: &AtomicBool) -> Result<()> {
    while !stop.load(Ordering::Relaxed) {
        for name in ["m1", "far"] {
            let status = host.member(name, "/api/v1/namespaces/default")?;
            ensure!(status == 200, "{name} answers {status}");
        }
    }
    Ok(())
}

fn deletions_are_refused(host: &ProcessHost) -> Result<()> {
    for (kind, name) in [
        ("customresourcedefinitions", MEMBERS),
        ("customresourcedefinitions", "clusteraccesses.fleet.kubectl-mc.dev"),
        ("apiservices", "v1alpha1.proxy.kubectl-mc.dev"),
        ("namespaces", "kubectl-mc-system"),
        ("namespaces", "kubectl-mc-agents"),
    ] {
        let deleted = host.kubectl.run(&["delete", kind, name, "--wait=false"])?;
        let lift = format!("kubectl annotate {kind} {name} {LIFTED}");
        deleted.failure(&[
            "would end all access to the members of this host",
            "kubectl mc uninstall",
            &lift,
        ])?;
    }
    let all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?labelSelector=app.kubernetes.io/managed-by%3Dkubectl-mc";
    let answer = host.api.request("DELETE", all, "", "")?;
    ensure!(answer.status() == 403, "the collection is deleted: {}", answer.text());
    // Helm deletes the registration before its policies, and another release writes it again.
    let helm = json!({"metadata": {"annotations": {"meta.helm.sh/release-name": "x"}}});
    host.api.merge(API_SERVICE, &helm)?;
    host.api.delete(&format!("{API_SERVICE}?dryRun=All"))?;
    host.api
        .merge(API_SERVICE, &json!({"metadata": {"annotations": {"meta.helm.sh/release-name": null}}}))
        .map(drop)
}

fn until_recorded(host: &ProcessHost) -> Result<()> {
    for name in ["m1", "far"] {
        eventually(&format!("{name} is recorded"), SOON, || {
            let secret = host.api.get(&secret_path(name))?;
            let record = secret["metadata"]["annotations"]["fleet.kubectl-mc.dev/registration"].clone();
            Ok(record.as_str().filter(|record| record.contains("Omit")).map(drop))
        })?;
    }
    Ok(())
}

/// Lifts the policy and deletes the definition, which also deletes every MemberCluster.
fn lose(host: &ProcessHost, agent: &OwnAgent) -> Result<()> {
    let watch = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/namespaces?watch=true";
    let watch = host.kubectl.start(&["get", "--raw", watch])?;
    host.kubectl.ok(&["annotate", "crd", MEMBERS, LIFTED])?;
    host.kubectl.ok(&["delete", "crd", MEMBERS, "--timeout=60s"])?;
    for name in ["m1", "far"] {
        eventually(&format!("{name} is unknown"), SOON, || {
            let status = host.member(name, "/api/v1/namespaces/default")?;
            ensure!(
                status == 404,
                "{name} answers {status}; the log of the sidecar: {}",
                host.sidecar.log()?
            );
            Ok(Some(()))
        })?;
    }
    watch.finish(3 * SOON).context("the stream of a member that is gone ends")?;
    agent.until_logged("404 Not Found")?;
    for name in ["m1", "far"] {
        host.api.get(&secret_path(name)).context("the Secret survives")?;
    }
    host.api.get("/api/v1/namespaces/kubectl-mc-agents/serviceaccounts/far").map(drop)
}

/// The kind of the policy's parameters no longer exists, and the policy must not refuse requests
/// for objects of others. A kube-apiserver that has just started knows the policy at once.
fn others_are_deleted(host: &ProcessHost) -> Result<()> {
    host.cluster.restart_apiserver()?;
    host.kubectl.ok(&["create", "namespace", "other"])?;
    host.kubectl.ok(&["delete", "namespace", "other", "--timeout=60s"])?;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "others.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Other", "plural": "others"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    host.api.create(path, &definition)?;
    host.api.delete(&format!("{path}/others.example.com")).map(drop)
}

const MEMBERS: &str = "memberclusters.fleet.kubectl-mc.dev";
const DEFINITION: &str = "customresourcedefinition.apiextensions.k8s.io/memberclusters.fleet.kubectl-mc.dev";
const DEFINITIONS_OF_MEMBERS: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/memberclusters.fleet.kubectl-mc.dev";
const LIFTED: &str = "fleet.kubectl-mc.dev/allow-deletion=yes";
