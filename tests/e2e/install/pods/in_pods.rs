//! `kubectl mc install` on a host whose sidecars are real pods. Other installations are in separate
//! files, so that the tests that share this host do not all run one after the other.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::both_sides::alone;
use harness::spare_host::{SIDECAR, SpareHost, listing};
use harness::tool::{Output, Tool};
use harness::wait::{SOON, eventually};

/// The host s1, and the plugin as its administrator.
pub(crate) struct Scene {
    pub(crate) host: SpareHost,
    pub(crate) plugin: Tool,
}

impl Scene {
    pub(crate) fn take() -> Result<Self> {
        let host = SpareHost::take()?;
        let plugin = host.plugin(program())?;
        Ok(Self { host, plugin })
    }

    pub(crate) fn install(&self, more: &[&str]) -> Result<Output> {
        self.plugin.run(&[&["install", "--image", SIDECAR, "--image-pull-policy=Never"], more].concat())
    }

    pub(crate) fn uninstall(&self) -> Result<String> {
        self.plugin.ok(&["uninstall", "--yes"])
    }

    pub(crate) fn api(&self) -> Result<Api> {
        Api::admin(self.host.cluster)
    }
}

pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_kubectl-mc"))
}

#[test]
fn install_serves_and_uninstall_leaves_nothing() -> Result<()> {
    let scene = Scene::take()?;
    let before = listing(scene.host.cluster)?;
    let told = scene.install(&[])?.success()?;
    ensure!(told.contains("deployment.apps/mc-sidecar created"), "{told}");
    let clusters = scene.plugin.run(&["clusters"])?;
    ensure!(clusters.code == 0 && clusters.stderr.starts_with("No clusters found"), "{clusters:?}");

    // A second installation changes nothing, and its diff is empty.
    let versions = versions(&scene)?;
    let again = scene.install(&[])?.success()?;
    ensure!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    let diff = scene.install(&["--diff"])?.success()?;
    ensure!(diff.is_empty(), "{diff}");
    ensure!(self::versions(&scene)? == versions, "what was applied again was written again");

    // The printed manifests equal the objects on the host: kubectl's own diff is empty.
    let printed = scene.install(&["-o", "yaml"])?.success()?;
    let kubectl = Tool::admin(scene.host.cluster)?;
    let diff = ["diff", "--server-side", "--field-manager=kubectl-mc", "-f", "-"];
    let diff = kubectl.run_with_input(&diff, printed.as_bytes())?;
    ensure!(diff.code == 0, "{diff:?}");

    // Other flags upgrade the installation in place.
    let upgraded = scene.install(&["--replicas=1", "--sidecar-flag=--max-tunnels=7"])?.success()?;
    ensure!(upgraded.contains("deployment.apps/mc-sidecar configured"), "{upgraded}");

    let removed = scene.uninstall()?;
    ensure!(removed.contains("namespace/kubectl-mc-system deleted"), "{removed}");
    // Kubernetes has created the Endpoints of the Service, with its labels.
    ensure!(!removed.contains("endpoints/"), "{removed}");
    let after = listing(scene.host.cluster)?;
    let left = after.difference(&before).collect::<Vec<_>>();
    let lost = before.difference(&after).collect::<Vec<_>>();
    ensure!(left.is_empty() && lost.is_empty(), "left: {left:?}; lost: {lost:?}");
    let again = scene.plugin.run(&["uninstall"])?;
    ensure!(again.code == 0 && again.stderr.contains("mc-sidecar is not installed"), "{again:?}");
    Ok(())
}

#[test]
fn dry_run_and_diff_show_everything_and_change_nothing() -> Result<()> {
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
fn missing_image_is_reported_and_the_right_one_repairs() -> Result<()> {
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
fn crash_of_the_sidecar_is_reported_with_its_reason() -> Result<()> {
    let scene = Scene::take()?;
    let told = scene.install(&["--sidecar-flag=--goaway-chance=0.5", "--replicas=1"])?;
    told.failure(&[
        "CrashLoopBackOff: exit code 64",
        "error: --goaway-chance: it is less than 0 or more than 0.02",
    ])?;
    scene.uninstall().map(drop)
}

#[test]
fn audit_shows_a_request_from_the_logs_of_the_pods() -> Result<()> {
    let scene = Scene::take()?;
    scene.install(&["--replicas=1", "--sidecar-flag=--audit-log-path=-"])?.success()?;
    // This is the step from the how-to: the Audit-Id header of an answer.
    let raw = Tool::admin(scene.host.cluster)?.run(&["get", "--raw", CLUSTERS, "-v=8"])?;
    let id = raw.stderr.lines().find_map(|line| line.split_once("Audit-Id: ").map(|(_, id)| id.trim()));
    let id = id.with_context(|| format!("no Audit-Id: {}", raw.stderr))?;
    let shown = eventually("the log has the event", SOON, || {
        let shown = scene.plugin.run(&["audit", id])?;
        ensure!(shown.code == 0, "{shown:?}");
        Ok(Some(shown.text()))
    })?;
    ensure!(shown.contains("what       list clusters.proxy.kubectl-mc.dev\n"), "{shown}");
    ensure!(shown.contains("\noutcome    200\n"), "{shown}");
    scene.uninstall().map(drop)
}

#[test]
fn cluster_joins_a_sidecar_in_any_namespace() -> Result<()> {
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
    // The plugin has read the sidecar's flags in the sidecar's own namespace.
    ensure!(diff.code == 0 && !diff.stderr.contains("assumed"), "{diff:?}");

    plugin.ok(&["unjoin", "far", &member, "--yes"])?;
    plugin.ok(&["uninstall", "--namespace=hub", "--yes"])?;
    ensure!(kubectl.run(&["get", "namespace", "hub"])?.code != 0, "the namespace is left");
    Ok(())
}

/// The resource versions of objects that a second installation could change.
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

pub(crate) const API_SERVICE: &str =
    "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.proxy.kubectl-mc.dev";
const CLUSTERS: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters";
