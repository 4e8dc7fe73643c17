//! A command for a member never runs anywhere else, whatever happens to the overlay and whatever a
//! kuberc contains.

use anyhow::Result;
use harness::bed::{bed, kubectl};
use harness::scene::Scene;
use harness::script;
use serde_json::json;

use crate::plugin_in;

/// kubectl skips files of `KUBECONFIG` that do not exist, and would run on the current context: the host.
#[test]
fn command_without_its_overlay_does_not_reach_the_host() -> Result<()> {
    let scene = Scene::new("no-overlay")?;
    let caller = scene.caller()?;
    let plugin = plugin_in(&scene, &caller)?;
    let text = format!("rm \"${{KUBECONFIG%%:*}}\"; exec {} \"$@\"", kubectl()?.display());
    let removing = plugin.home().join("removing");
    script::write(&removing, &format!("#!/bin/sh\n{text}\n"))?;
    let plugin = plugin.env("KUBECTL_MC_KUBECTL", &removing).env("KUBECTL_MC_DIRECT", "0");
    plugin.run(&["get", "configmaps"])?.failure(&["context", "mc/m1", "does not exist"])?;
    Ok(())
}

#[test]
fn context_in_a_kuberc_does_not_replace_the_member() -> Result<()> {
    let scene = Scene::new("kuberc")?;
    let caller = scene.caller()?;
    let plugin = plugin_in(&scene, &caller)?;
    let folder = plugin.home().join(".kube");
    std::fs::create_dir_all(&folder)?;
    let options = json!([{"name": "context", "default": "no-such-context"}]);
    let kuberc = json!({
        "apiVersion": "kubectl.config.k8s.io/v1beta1", "kind": "Preference",
        "defaults": [{"command": "version", "options": options}],
    });
    std::fs::write(folder.join("kuberc"), kuberc.to_string())?;
    assert!(plugin.ok(&["version"])?.contains(&bed()?.members["m1"].version));
    Ok(())
}
