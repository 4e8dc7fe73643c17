//! Without kubectl, `get` prints exactly what kubectl prints, byte for byte. Both run many commands
//! for many types on one cluster.

use anyhow::{Result, ensure};
use harness::scene::Scene;
use harness::tool::{Output, Tool};
use harness::wait::{SOON, eventually};
use regex::Regex;
use serde_json::json;

use crate::plugin_in;

#[test]
fn table_equals_kubectls_byte_for_byte() -> Result<()> {
    let scene = furnished("native-table")?;
    for words in [
        "get configmaps",
        "get configmaps -o wide",
        "get configmaps --show-labels",
        "get configmaps -L app,tier",
        "get configmaps -l app=x",
        "get configmaps --no-headers",
        "get configmaps --chunk-size=2",
        "get configmap one two",
        "get cm/one cm/two",
        "get cm one missing two",
        "get cm missing --ignore-not-found",
        "get cm --field-selector metadata.name=one",
        "get deploy,cm,svc",
        "get deploy,cm,svc --no-headers",
        "get deployments.apps -o wide",
        "get deployments.v1.apps",
        "get Deployment web",
        "get deploy/web svc/web",
        "get all",
        "get pods -l nobody=has",
        "get po,svc -l nobody=has",
        "get nothing-like-it",
        "get nodes",
        "get events",
    ] {
        same(&scene, words)?;
    }
    Ok(())
}

#[test]
fn json_and_names_equal_kubectls_byte_for_byte() -> Result<()> {
    let scene = furnished("native-objects")?;
    for words in [
        "get cm",
        "get cm one",
        "get cm one two",
        "get cm missing",
        "get cm one missing",
        "get cm -l nobody=has",
        "get deploy/web svc/web",
        "get deploy,svc,cm",
        "get all",
        "get pod odd",
        "get serviceaccounts",
        "get roles,rolebindings",
        "get cm --show-managed-fields",
    ] {
        for output in ["json", "name"] {
            same(&scene, &format!("{words} -o {output}"))?;
        }
    }
    Ok(())
}

#[test]
fn cluster_scoped_types_equal_kubectls_byte_for_byte() -> Result<()> {
    let scene = furnished("native-cluster")?;
    let reader = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]});
    let caller = scene.caller()?;
    let attributes = json!({"resource": "nodes", "verb": "list"});
    harness::scene::grant(&scene.api, "native-cluster-reader", &caller, &reader, &attributes)?;
    for words in [
        "get namespaces",
        "get clusterroles",
        "get clusterroles -o json",
        "get apiservices",
        "get apiservices -o json",
        "get flowschemas -o json",
        "get flowschemas -o wide",
        "get clusterrolebindings -o wide",
        "get serviceaccounts -A",
        "get configmaps -A -o name",
        "get componentstatuses -o name",
        "get po,svc,deploy -A",
    ] {
        same(&scene, words)?;
    }
    Ok(())
}

#[test]
fn unsupported_options_are_left_to_kubectl() -> Result<()> {
    let scene = furnished("native-not")?;
    for words in [
        "get cm -o yaml",
        "get cm one -o yaml",
        "get cm --sort-by=.metadata.name",
        "get cm --sort-by={.data.number} -o wide",
        "get cm,svc --sort-by=.metadata.name",
        "get all --sort-by=.metadata.name --no-headers",
        "get cm --sort-by=.metadata.name -o name",
        "get cm one two --sort-by=.metadata.name -o json",
        "get cm --sort-by=.data.nothing",
        "get cm -o jsonpath={.items[*].metadata.name}",
        "get cm one -o jsonpath={.data.json}",
        "get cm one two -o jsonpath={.items[*].data.wide}",
        "get cm -o jsonpath={.items[*",
        "get cm -o jsonpath-as-json={.items[*].data}",
        "get cm -o go-template={{range.items}}{{.data.lines}}{{end}}",
        "get cm one -o go-template={{.data.quotes}}",
        "get cm -o go-template={{.nothing}}",
        "get cm -o custom-columns=NAME:.metadata.name",
        "get cm one -o custom-columns=NAME:.metadata.name,NOTHING:.data.nothing,WIDE:.data.wide",
        "get deploy,cm -o custom-columns=KIND:.kind,NAME:.metadata.name --no-headers",
        "get cm one -A",
        "get cm one -l app=x",
        "get cm -o nonsense",
        "get cm -o json --show-labels",
        "get",
    ] {
        same(&scene, words)?;
    }
    Ok(())
}

/// Objects of several types, with texts that are hard to print.
pub(super) fn furnished(name: &str) -> Result<Scene> {
    let scene = Scene::new(name)?;
    let path =
        |group: &str, kind: &str, name: &str| format!("{group}/namespaces/{}/{kind}/{name}", scene.name);
    for (name, labels) in
        [("one", json!({"app": "x", "tier": "y"})), ("two", json!({})), ("three", json!({"app": "z"}))]
    {
        let data = json!({
            "lines": "a\nb\n  c\n", "no-end": "a\nb", "long": "word ".repeat(60).trim(), "number": "1", "yes": "yes",
            "time": "2026-11-21T20:50:40Z", "quotes": "it's \"<b>\" & more: #1", "empty": "", "wide": "é 😀 \u{2028}",
            "tab": "a\tb", "spaces": " x ", "json": "{\"a\": [1, 2]}", "a10": "x", "a2": "x",
        });
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data,
        });
        scene.api.apply(&path("/api/v1", "configmaps", name), &object)?;
    }
    let container = json!({
        "name": "main", "image": "none", "command": ["sh", "-c", "echo a long line that will not fit on one line of eighty columns; sleep 1\n"],
    });
    let metadata = json!({"labels": {"app": "web"}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": metadata, "spec": {"containers": [container]}}},
    });
    scene.api.apply(&path("/apis/apps/v1", "deployments", "web"), &deployment)?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]},
    });
    scene.api.apply(&path("/api/v1", "services", "web"), &service)?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd", "annotations": {"note": "a: b"}},
        "spec": {"containers": [container], "nodeName": "nowhere", "automountServiceAccountToken": false},
    });
    eventually("the pod is accepted", SOON, || {
        scene.api.apply(&path("/api/v1", "pods", "odd"), &pod).map(Some)
    })?;
    Ok(scene)
}

/// Replaces ages, which change between two commands.
pub(super) fn without_ages(text: &str) -> Result<String> {
    let age = Regex::new(r"(?m)( +)(<invalid>|\d+[smhd](\d+[smh])?)( *)($| )")?;
    Ok(age.replace_all(text, " AGE ").into_owned())
}

fn same(scene: &Scene, words: &str) -> Result<()> {
    let caller = scene.caller()?;
    let plugin = plugin_in(scene, &caller)?;
    let direct = plugin.clone().env("KUBECTL_MC_DIRECT", "only");
    same_by(&plugin, &[("direct requests", &direct), ("the plugin", &plugin)], words)
}

/// The exit code and output of a command, without the ages of objects.
fn said(tool: &Tool, words: &str) -> Result<(i32, String, String)> {
    let words: Vec<&str> = words.split(' ').collect();
    let Output { stdout, stderr, code, .. } = &tool.run(&words)?;
    Ok((*code, without_ages(&String::from_utf8_lossy(stdout))?, stderr.clone()))
}

/// Compares the plugin with kubectl, both with cold caches.
pub(super) fn same_cold(new: &dyn Fn() -> Result<Tool>, words: &str) -> Result<()> {
    // Retries, because controllers may change objects in between.
    eventually("both say the same", SOON, || {
        let ours = said(&new()?, words)?;
        let theirs = said(&new()?.env("KUBECTL_MC_DIRECT", "0"), words)?;
        ensure!(ours == theirs, "{words:?}\nkubectl: {theirs:#?}\nthe plugin, without a cache: {ours:#?}");
        Ok(Some(()))
    })
}

/// Compares kubectl's output with that of others.
pub(super) fn same_by(plugin: &Tool, others: &[(&str, &Tool)], words: &str) -> Result<()> {
    let kubectl = plugin.clone().env("KUBECTL_MC_DIRECT", "0");
    // Retries, because controllers may change objects in between.
    eventually("both say the same", SOON, || {
        let theirs = said(&kubectl, words)?;
        for (name, tool) in others {
            let ours = said(tool, words)?;
            ensure!(ours == theirs, "{words:?}\nkubectl: {theirs:#?}\n{name}: {ours:#?}");
        }
        Ok(Some(()))
    })
}
