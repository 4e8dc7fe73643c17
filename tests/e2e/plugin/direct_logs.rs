//! Without kubectl, `logs` prints exactly what kubectl prints, byte for byte. Both run on one
//! cluster, with many options, for pods with one container and with two.

use anyhow::{Result, ensure};
use harness::scene::Scene;
use harness::tool::Output;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::plugin_in;

#[test]
fn log_of_a_pod_equals_kubectls_byte_for_byte() -> Result<()> {
    let scene = spoken("native-logs-one")?;
    for words in [
        "logs talker",
        "logs pod/talker",
        "logs talker main",
        "logs talker -c main",
        "logs talker --tail=1",
        "logs talker --tail=0",
        "logs talker --timestamps",
        "logs talker --prefix",
        "logs talker --prefix --timestamps",
        "logs talker --since=1h",
        "logs talker --since-time=2020-01-01T00:00:00Z --tail=2",
        "logs talker --previous",
        "logs talker -c missing",
        "logs missing",
        "logs talker -f",
    ] {
        same(&scene, words)?;
    }
    Ok(())
}

#[test]
fn logs_of_several_containers_equal_kubectls() -> Result<()> {
    let scene = spoken("native-logs-two")?;
    for words in [
        "logs pair",
        "logs pair -c second",
        "logs pair --all-containers",
        "logs pair --all-containers --prefix",
        "logs -l app=pair",
        "logs -l app=pair -c second --prefix",
        "logs -l app=talker --tail=-1",
        "logs -l app=nobody",
    ] {
        same(&scene, words)?;
    }
    Ok(())
}

/// A pod with one container and one with two. They write nothing more.
fn spoken(name: &str) -> Result<Scene> {
    let scene = Scene::new(name)?;
    scene.pod("talker", "echo one; echo two; printf 'and no end'")?;
    let container = |name: &str| {
        json!({
            "name": name, "image": "testbed.local/busybox:1", "imagePullPolicy": "Never",
            "command": ["sh", "-c", format!("echo {name} speaks; echo and says more")],
        })
    };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pair", "labels": {"app": "pair"}},
        "spec": {
            "containers": [container("first"), container("second")], "restartPolicy": "Never",
            "automountServiceAccountToken": false,
        },
    });
    let path = |name: &str| format!("/api/v1/namespaces/{}/pods/{name}", scene.name);
    scene.api.apply(&path("pair"), &pod)?;
    for name in ["talker", "pair"] {
        eventually("the pod has ended", SOON, || {
            let pod: Value = scene.api.get(&path(name))?;
            ensure!(pod["status"]["phase"] == "Succeeded", "{}", pod["status"]);
            Ok(Some(()))
        })?;
    }
    Ok(scene)
}

fn same(scene: &Scene, words: &str) -> Result<()> {
    let caller = scene.caller()?;
    let plugin = plugin_in(scene, &caller)?;
    let [kubectl, direct] = ["0", "only"].map(|value| plugin.clone().env("KUBECTL_MC_DIRECT", value));
    let words: Vec<&str> = words.split(' ').collect();
    let theirs = kubectl.run(&words)?;
    // kubectl's order of a pod's containers is random.
    let text = |output: &Output| {
        let mut lines: Vec<_> = output.text().split_inclusive('\n').map(str::to_owned).collect();
        if words.contains(&"--all-containers") {
            lines.sort();
        }
        lines
    };
    for tool in [&direct, &plugin] {
        let ours = tool.run(&words)?;
        assert_eq!(
            (ours.code, text(&ours), &ours.stderr),
            (theirs.code, text(&theirs), &theirs.stderr),
            "{words:?}"
        );
    }
    Ok(())
}
