//! The plugin's output at one cluster equals that of the kubectl in use, for the last three minor versions:
//! 300 command lines, valid and invalid, with cold and warm caches. Each version runs a third of
//! them. With `DIRECT_LINES=all`, each version runs all lines, and each line also with a separate
//! cache.

use anyhow::Result;

use crate::plugin::direct_get::{furnished, same_by, same_cold};
use crate::{installed, plugin_in};

#[test]
fn get_matches_kubectl_1_34() -> Result<()> {
    lines_match("1.34", 0)
}

#[test]
fn get_matches_kubectl_1_35() -> Result<()> {
    lines_match("1.35", 1)
}

#[test]
fn get_matches_kubectl_1_36() -> Result<()> {
    lines_match("1.36", 2)
}

/// Runs every third line, unless all are requested.
fn lines_match(version: &str, remainder: usize) -> Result<()> {
    let scene = furnished(&format!("direct-{}", version.replace('.', "-")))?;
    let caller = scene.caller()?;
    let kubectl = installed(&format!("kubectl/{version}/kubectl"))?;
    let plugin = || anyhow::Ok(plugin_in(&scene, &caller)?.env("KUBECTL_MC_KUBECTL", &kubectl));
    let mut warm = plugin()?;
    let lines = OBJECTS.iter().flat_map(|objects| OPTIONS.iter().map(move |options| (objects, options)));
    let all = std::env::var("DIRECT_LINES").is_ok_and(|lines| lines == "all");
    for (at, (objects, options)) in lines.enumerate().filter(|(at, _)| all || at % 3 == remainder) {
        let words = format!("get {objects} {options}");
        // A new home directory has no cache.
        if at % 30 == remainder {
            warm = plugin()?;
        }
        if all {
            same_cold(&plugin, words.trim())?;
        }
        same_by(&warm, &[("the plugin", &warm)], words.trim())?;
    }
    Ok(())
}

const OBJECTS: &[&str] = &[
    "configmaps",
    "cm,deploy",
    "cm/one",
    "cm one two",
    "cm one missing",
    "configmap missing",
    "deployments.apps",
    "deployments.v1.apps",
    "deploy/web svc/web",
    "svc,deploy,cm",
    "all",
    "pods",
    "po odd",
    "sa",
    "nonsense",
    "deployments.nonsense",
    "secrets,nonsense",
    "ns",
    "Deployment web",
    "rolebindings",
];

const OPTIONS: &[&str] = &[
    "",
    "-o wide",
    "-o json",
    "-o name",
    "--no-headers",
    "--show-labels",
    "-l app=x",
    "-l app=",
    "-l app=x,tier!=y -o name",
    "-L app,tier",
    "--ignore-not-found",
    "-A",
    "--chunk-size=1",
    "--field-selector metadata.name=one",
];
