//! `kubectl mc install` and `uninstall`, on a host whose sidecars really are pods.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::bed::spare;
use harness::both_sides::alone;
use harness::spare_host::{SIDECAR, SpareHost, listing};
use harness::tool::{Output, Tool};
use harness::wait::{SOON, eventually};
use serde_json::Value;

/// s1, and the plugin as its administrator.
struct Scene {
    host: SpareHost,
    plugin: Tool,
}

impl Scene {
    fn take() -> Result<Self> {
        let host = SpareHost::take()?;
        let plugin = host.plugin(program())?;
        Ok(Self { host, plugin })
    }

    fn install(&self, more: &[&str]) -> Result<Output> {
        self.plugin.run(&[&["install", "--image", SIDECAR, "--image-pull-policy=Never"], more].concat())
    }

    fn uninstall(&self) -> Result<String> {
        self.plugin.ok(&["uninstall", "--yes"])
    }

    fn api(&self) -> Result<Api> {
        Api::admin(self.host.cluster)
    }
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_kubectl-mc"))
}

#[test]
fn what_install_makes_serves_and_uninstall_leaves_nothing_of_it() -> Result<()> {
    let scene = Scene::take()?;
    let before = listing(scene.host.cluster)?;
    let told = scene.install(&[])?.success()?;
    ensure!(told.contains("deployment.apps/mc-sidecar created"), "{told}");
    let clusters = scene.plugin.run(&["clusters"])?;
    ensure!(clusters.code == 0 && clusters.stderr.contains("No resources found"), "{clusters:?}");

    // Again: nothing changes, and nothing would.
    let versions = versions(&scene)?;
    let again = scene.install(&[])?.success()?;
    ensure!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    let diff = scene.install(&["--diff"])?.success()?;
    ensure!(diff.is_empty(), "{diff}");
    ensure!(self::versions(&scene)? == versions, "what was applied again was written again");

    // What is printed is what is there: kubectl's own diff finds none.
    let printed = scene.install(&["-o", "yaml"])?.success()?;
    let kubectl = Tool::admin(scene.host.cluster)?;
    let diff = ["diff", "--server-side", "--field-manager=kubectl-mc", "-f", "-"];
    let diff = kubectl.run_with_input(&diff, printed.as_bytes())?;
    ensure!(diff.code == 0, "{diff:?}");

    // Another way to run it is an upgrade in place.
    let upgraded = scene.install(&["--replicas=1", "--sidecar-flag=--max-tunnels=7"])?.success()?;
    ensure!(upgraded.contains("deployment.apps/mc-sidecar configured"), "{upgraded}");

    let removed = scene.uninstall()?;
    ensure!(removed.contains("namespace/kubectl-mc-system deleted"), "{removed}");
    let after = listing(scene.host.cluster)?;
    let left = after.difference(&before).collect::<Vec<_>>();
    let lost = before.difference(&after).collect::<Vec<_>>();
    ensure!(left.is_empty() && lost.is_empty(), "left: {left:?}; lost: {lost:?}");
    let again = scene.plugin.run(&["uninstall"])?;
    ensure!(again.code == 0 && again.stderr.contains("nothing of it is installed"), "{again:?}");
    Ok(())
}

#[test]
fn a_dry_run_and_a_diff_say_everything_and_change_nothing() -> Result<()> {
    let scene = Scene::take()?;
    let before = listing(scene.host.cluster)?;
    let told = scene.install(&["--dry-run"])?.success()?;
    ensure!(told.contains("deployment.apps/mc-sidecar created (server dry run)"), "{told}");
    ensure!(told.lines().all(|line| line.ends_with(" created (server dry run)")), "{told}");
    let diff = scene.install(&["--diff"])?.success()?;
    ensure!(diff.contains("+++ merged/deployment.apps/mc-sidecar -n kubectl-mc-system"), "{diff}");
    ensure!(listing(scene.host.cluster)? == before, "something was changed");
    Ok(())
}

#[test]
fn an_image_that_is_not_there_is_named_and_the_right_one_mends_it() -> Result<()> {
    let scene = Scene::take()?;
    let wrong = ["install", "--image=testbed.local/no-such:1", "--image-pull-policy=Never"];
    scene.plugin.run(&wrong)?.failure(&[
        "not available",
        "ErrImageNeverPull",
        "testbed.local/no-such:1",
        "hint: ",
    ])?;
    let registered = scene.api()?.request("GET", API_SERVICE, "", "")?;
    ensure!(registered.status() == 404, "the group was registered although nobody serves it");
    scene.install(&["--replicas=1"])?.success()?;
    scene.uninstall().map(drop)
}

#[test]
fn a_sidecar_that_ends_at_once_says_why() -> Result<()> {
    let scene = Scene::take()?;
    let told = scene.install(&["--sidecar-flag=--goaway-chance=0.5", "--replicas=1"])?;
    told.failure(&[
        "CrashLoopBackOff: it ended with 64",
        "error: --goaway-chance: it is less than 0 or more than 0.02",
    ])?;
    scene.uninstall().map(drop)
}

#[test]
fn registered_members_are_removed_only_after_a_yes() -> Result<()> {
    let scene = Scene::take()?;
    scene.install(&["--replicas=1"])?.success()?;
    let member = serde_json::json!({
        "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster",
        "metadata": {"name": "far"}, "spec": {},
    });
    scene.api()?.create("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters", &member)?;
    scene.plugin.run(&["uninstall"])?.failure(&["far", "--yes"])?;
    scene.api()?.get("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/far")?;
    let removed = scene.uninstall()?;
    ensure!(removed.contains("membercluster.fleet.kubectl-mc.dev/far deleted"), "{removed}");
    Ok(())
}

#[test]
fn a_cluster_is_joined_to_a_sidecar_in_any_namespace() -> Result<()> {
    let (scene, alone) = (Scene::take()?, alone()?);
    let kubectl = Tool::admin(scene.host.cluster)?;
    scene.install(&["--namespace=hub", "--replicas=1"])?.success()?;
    let plugin = Tool::plugin_at(program(), &[scene.host.cluster, alone.cluster])?;
    let member = format!("--member-context={}", alone.cluster.name);
    plugin.ok(&["join", "far", &member])?;
    let secrets =
        ["get", "secrets", "-A", "--field-selector=type=fleet.kubectl-mc.dev/member", "--no-headers"];
    let columns = "custom-columns=NS:.metadata.namespace,N:.metadata.name";
    let secrets = kubectl.ok(&[&secrets[..], &["-o", columns]].concat())?;
    let secrets: Vec<_> = secrets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    ensure!(secrets == [["hub", "far.manager"], ["hub", "far.member"]], "{secrets:?}");
    plugin.ok(&["--cluster=far", "get", "namespaces"])?;
    let diff = plugin.run(&["access", "diff", "far"])?;
    // Its flags were read from where it is.
    ensure!(diff.code == 0 && !diff.stderr.contains("assumed"), "{diff:?}");

    plugin.ok(&["unjoin", "far", &member, "--yes"])?;
    plugin.ok(&["uninstall", "--namespace=hub", "--yes"])?;
    ensure!(kubectl.run(&["get", "namespace", "hub"])?.code != 0, "the namespace is left");
    Ok(())
}

#[test]
fn a_namespace_that_was_there_before_stays_as_it_was() -> Result<()> {
    let scene = Scene::take()?;
    let kubectl = Tool::admin(scene.host.cluster)?;
    kubectl.ok(&["create", "namespace", "shared"])?;
    let labels =
        || scene.api()?.get("/api/v1/namespaces/shared").map(|found| found["metadata"]["labels"].clone());
    let before = labels()?;
    scene.install(&["--namespace=shared", "--replicas=1"])?.success()?;
    ensure!(labels()? == before);
    scene.plugin.ok(&["uninstall", "--namespace=shared", "--yes"])?;
    let left = kubectl.ok(&[
        "-n",
        "shared",
        "get",
        "all,secrets,leases,networkpolicies,pdb,roles,rolebindings",
        "-o",
        "name",
    ])?;
    ensure!(left.is_empty(), "{left}");
    ensure!(labels()? == before);
    kubectl.ok(&["delete", "namespace", "shared"]).map(drop)
}

#[test]
fn a_new_signer_of_the_serving_certificate_is_noticed_by_nobody() -> Result<()> {
    let scene = Scene::take()?;
    scene.install(&[])?.success()?;
    let api = scene.api()?;
    let bundle = || -> Result<Value> { Ok(api.get(API_SERVICE)?["spec"]["caBundle"].clone()) };
    let secret = "/api/v1/namespaces/kubectl-mc-system/secrets/mc-sidecar-ca";
    let (first, signer) = (bundle()?, api.get(secret)?["data"]["tls.crt"].clone());
    let gone = r#"{"data": {"tls.key": null}}"#;
    let answer = api.request("PATCH", secret, "application/merge-patch+json", gone)?;
    ensure!(answer.status() == 200);
    let works = || -> Result<()> {
        let answer = api.request("GET", "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters", "", "")?;
        ensure!(answer.status() == 200, "the host does not reach the sidecars: {}", answer.status());
        Ok(())
    };
    // Every answer is asked for on the way, and one that fails ends the test.
    let mut broken = Ok(());
    eventually("another signer", 3 * SOON, || {
        broken = works();
        let done = broken.is_err() || (bundle()? != first && api.get(secret)?["data"]["tls.crt"] != signer);
        Ok(done.then_some(()))
    })?;
    broken?;
    let mut broken = Ok(());
    let logs = ["-n", "kubectl-mc-system", "logs", "-l", "app.kubernetes.io/name=mc-sidecar", "--tail=-1"];
    eventually("both replicas show a certificate of the new signer", 3 * SOON, || {
        broken = works();
        let told = Tool::admin(scene.host.cluster)?.ok(&logs)?;
        let made = told.lines().filter(|line| line.contains("a serving certificate was made renewed=true"));
        Ok((broken.is_err() || made.count() == 2).then_some(()))
    })?;
    broken?;
    works()?;
    scene.uninstall().map(drop)
}

#[test]
fn sidecars_run_in_another_cluster_for_a_host_without_nodes() -> Result<()> {
    let scene = Scene::take()?;
    let (runs, host) = (scene.host.cluster, spare("s3")?);
    let plugin = Tool::plugin_at(program(), &[host, runs])?;
    let before = (listing(host)?, listing(runs)?);
    let nodes = Api::admin(runs)?.get("/api/v1/nodes")?;
    let address = nodes["items"][0]["status"]["addresses"][0]["address"].as_str().context("no address")?;
    let endpoint = format!("--endpoint={address}:10260");
    let install = [
        "install",
        "--image",
        SIDECAR,
        "--image-pull-policy=Never",
        "--replicas=1",
        "--host-network",
        "--run-on=s1",
        &endpoint,
    ];
    let told = plugin.run(&install)?.success()?;
    ensure!(told.contains("deployment.apps/mc-sidecar created"), "{told}");
    let clusters = plugin.run(&["clusters"])?;
    ensure!(clusters.code == 0 && clusters.stderr.contains("No resources found"), "{clusters:?}");
    plugin.ok(&["uninstall", "--run-on=s1"])?;
    ensure!((listing(host)?, listing(runs)?) == before, "something is left");
    Ok(())
}

/// The versions of what would change if it were written.
fn versions(scene: &Scene) -> Result<Vec<String>> {
    let api = scene.api()?;
    let paths = [
        API_SERVICE,
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/mc-sidecar",
        "/api/v1/namespaces/kubectl-mc-system/services/mc-sidecar",
        "/api/v1/namespaces/kubectl-mc-system/secrets/mc-sidecar-ca",
    ];
    let version = |path| Ok(api.get(path)?["metadata"]["resourceVersion"].to_string());
    paths.into_iter().map(version).collect()
}

const API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.proxy.kubectl-mc.dev";
