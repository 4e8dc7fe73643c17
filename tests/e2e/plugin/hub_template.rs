//! With `--hub=template=…`, a custom path reaches real members of a real host, and the plugin reads
//! no list of clusters.

use anyhow::{Result, ensure};
use harness::caller::Caller;
use harness::scene::{EVERY_VERB, Scene};
use serde_json::json;

use crate::plugin;

#[test]
fn template_reaches_real_members_by_its_path() -> Result<()> {
    let caller = Caller::certificate("e2e-template-user", &[])?;
    let scenes = ["m1", "m2"].into_iter().map(|cluster| Scene::on(cluster, "template"));
    let scenes: Vec<_> = scenes.collect::<Result<_>>()?;
    scenes[0].let_in(&caller, &["m1", "m2"], EVERY_VERB)?;
    for scene in &scenes {
        scene.allow(&caller)?;
    }
    let namespace = &scenes[0].name;
    let path = "template=/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/{cluster}/proxy";
    let plugin = plugin(&caller)?.with(&["--hub", path, "--namespace", namespace]);

    let config_map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": namespace}, "data": {"key": "v"},
    });
    let words = ["--yes", "-C", "m1,m2", "apply", "-f", "-"];
    let applied = plugin.run_with_input(&words, config_map.to_string().as_bytes())?.success()?;
    ensure!(applied == "m1 | configmap/c created\nm2 | configmap/c created\n", "{applied}");
    let table = plugin.ok(&["-C", "m1,m2", "get", "configmap", "c"])?;
    let rows: Vec<_> =
        table.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>()).collect();
    ensure!(rows == [["CLUSTER", "NAME"], ["m1", "c"], ["m2", "c"]], "{table}");
    let data = ["-C", "m1", "get", "configmap", "c", "-o", "jsonpath={.data.key}"];
    ensure!(plugin.ok(&data)? == "v");
    let whoami = plugin.ok(&["-C", "m1", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])?;
    ensure!(whoami == "e2e-template-user", "{whoami}");

    let unknown = plugin.run(&["-C", "nowhere", "get", "configmap"])?;
    unknown.failure(&["through the template of host", "host authorization", "\"nowhere\" is forbidden"])?;
    let all = plugin.run(&["--all-clusters", "get", "configmap"])?;
    ensure!(all.code == 2 && all.stderr.contains("has no list of clusters"), "{all:?}");
    let own = crate::plugin(&caller)?.run(&["--hub", path, "access", "list"])?;
    ensure!(own.code == 2 && own.stderr.contains("needs kubectl-mc's own sidecar"), "{own:?}");
    Ok(())
}
