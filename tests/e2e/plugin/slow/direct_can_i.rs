//! The output of `auth can-i` without kubectl equals kubectl's, byte for byte, whichever of the last three
//! minor versions it is.

use anyhow::{Result, ensure};
use harness::scene::Scene;
use harness::tool::Tool;

use crate::plugin::direct_get::same_by;
use crate::{installed, plugin_in};

#[test]
fn can_i_matches_kubectl_1_34() -> Result<()> {
    can_i_matches("1.34")
}

#[test]
fn can_i_matches_kubectl_1_35() -> Result<()> {
    can_i_matches("1.35")
}

#[test]
fn can_i_matches_kubectl_1_36() -> Result<()> {
    can_i_matches("1.36")
}

fn can_i_matches(version: &str) -> Result<()> {
    let scene = Scene::new(&format!("direct-can-i-{}", version.replace('.', "-")))?;
    let caller = scene.caller()?;
    let plugin = plugin_in(&scene, &caller)?.env("KUBECTL_MC_KUBECTL", kubectl(version)?);
    for words in BY_REQUESTS {
        by_requests(&plugin, words)?;
    }
    for words in BY_KUBECTL {
        same_by(&plugin, &[("the plugin", &plugin)], words)?;
    }
    Ok(())
}

/// Checks that the command runs without kubectl, and that the output is kubectl's.
fn by_requests(plugin: &Tool, words: &str) -> Result<()> {
    let direct = plugin.clone().env("KUBECTL_MC_DIRECT", "only");
    same_by(plugin, &[("direct requests", &direct), ("the plugin", plugin)], words)?;
    let logged = plugin.run(&[&words.split(' ').collect::<Vec<_>>()[..], &["-v=4"]].concat())?;
    ensure!(logged.stderr.contains("by=\"direct requests\""), "{words}: {}", logged.stderr);
    Ok(())
}

fn kubectl(version: &str) -> Result<std::path::PathBuf> {
    installed(&format!("kubectl/{version}/kubectl"))
}

const BY_REQUESTS: &[&str] = &[
    "auth can-i get pods",
    "auth can-i create deployments.apps",
    "auth can-i list deploy",
    "auth can-i get pods/web",
    "auth can-i create pods --subresource=exec",
    "auth can-i delete po -n kube-system",
    "auth can-i get nodes",
    "auth can-i get nodes -A",
    "auth can-i list clusterroles",
    "auth can-i get secrets -A",
    "auth can-i * *",
    "auth can-i * * -A",
    "auth can-i get /healthz",
    "auth can-i get /metrics",
    "auth can-i post /nothing",
    "auth can-i update Deployment -q",
    "auth can-i get secrets -q -n kube-system",
    "auth can-i get hpa.v1.autoscaling",
    "auth can-i get nonsense",
    "auth can-i get Nonsense.apps",
    "auth can-i get nonsense.apps -A",
    "auth can-i impersonate users",
    "auth can-i impersonate groups/dev -A",
];

const BY_KUBECTL: &[&str] = &[
    "auth can-i",
    "auth can-i get",
    "auth can-i fetch pods",
    "auth can-i list /healthz",
    "auth can-i get pods --no-headers",
    "auth can-i get /healthz --subresource=x",
    "auth -A can-i get pods",
    "auth can-i --list",
];
