//! Without kubectl, `auth can-i`, `api-resources` and `top pod` print exactly what kubectl prints,
//! byte for byte, for each of its last three minor versions.

use anyhow::{Result, ensure};
use harness::scene::{self, Scene};
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::json;

use crate::plugin::direct_get::same_by;
use crate::{installed, plugin_in};

#[test]
fn reports_match_kubectl_1_34() -> Result<()> {
    reports_match("1.34")
}

#[test]
fn reports_match_kubectl_1_35() -> Result<()> {
    reports_match("1.35")
}

#[test]
fn reports_match_kubectl_1_36() -> Result<()> {
    reports_match("1.36")
}

#[test]
fn pod_metrics_match_kubectl() -> Result<()> {
    let scene = Scene::on("m3", "direct-top")?;
    serve_metrics(&scene)?;
    let caller = scene.caller()?;
    let rule = json!({"apiGroups": ["metrics.k8s.io", ""], "resources": ["pods"], "verbs": ["get", "list"]});
    let attributes = json!({"group": "metrics.k8s.io", "resource": "pods", "verb": "list"});
    scene::grant(&scene.api, "direct-top", &caller, &rule, &attributes)?;
    for version in VERSIONS {
        let plugin = plugin_in(&scene, &caller)?.env("KUBECTL_MC_KUBECTL", kubectl(version)?);
        for words in [
            "top pod",
            "top pods --no-headers",
            "top po --containers",
            "top pod web",
            "top pod web --containers --no-headers",
            "top pod -l app=db",
        ] {
            by_requests(&plugin, words)?;
        }
        for words in [
            "top pod missing",
            "top pod -l app=none",
            "top pod --sort-by=cpu",
            "top pod --sum",
            "top pod -n default",
        ] {
            same_by(&plugin, &[("the plugin", &plugin)], words)?;
        }
        // Other tests have no metrics, so all namespaces contain only these.
        by_requests(&plugin, "top pod -A")?;
        by_requests(&plugin, "top pod -A --containers")?;
    }
    Ok(())
}

fn reports_match(version: &str) -> Result<()> {
    let scene = Scene::new(&format!("direct-reports-{}", version.replace('.', "-")))?;
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

/// Checks that the command runs without kubectl, and that its output equals kubectl's.
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

/// Metrics of two pods of the scene, as the metrics API has them.
fn serve_metrics(scene: &Scene) -> Result<()> {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "pods.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "metrics.k8s.io", "scope": "Namespaced",
            "names": {"plural": "pods", "singular": "podmetrics", "kind": "PodMetrics", "listKind": "PodMetricsList"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": schema}],
        },
    });
    scene
        .api
        .apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pods.metrics.k8s.io", &definition)?;
    let pods = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods", scene.name);
    for (name, usages) in [
        ("web", &[("b", "123456789n", "1536Ki"), ("a", "2m", "10Mi")][..]),
        ("db", &[("main", "1500u", "2147483649")][..]),
        ("idle", &[("main", "0", "0")][..]),
    ] {
        let containers: Vec<_> = usages
            .iter()
            .map(|(name, cpu, memory)| json!({"name": name, "usage": {"cpu": cpu, "memory": memory}}))
            .collect();
        let object = json!({
            "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
            "metadata": {"name": name, "labels": {"app": name}}, "timestamp": "2026-11-25T03:00:00Z", "window": "15s",
            "containers": containers,
        });
        eventually("the metrics are stored", SOON, || {
            scene.api.apply(&format!("{pods}/{name}"), &object).map(Some)
        })?;
    }
    Ok(())
}

const VERSIONS: &[&str] = &["1.34", "1.35", "1.36"];

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
    "api-resources",
    "api-resources -o wide",
    "api-resources -o name",
    "api-resources --no-headers",
    "api-resources --api-group=apps",
    "api-resources --api-group= --namespaced=false",
    "api-resources --namespaced -o name",
    "api-resources --verbs=list,get -o name",
    "api-resources --verbs=delete --verbs=create --sort-by=name",
    "api-resources --categories=all --sort-by=kind -o wide",
    "api-resources --api-group=none",
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
    "api-resources extra",
    "api-resources --verbs=list,",
    "api-resources --sort-by=age",
    "api-resources -o nonsense",
    "api-resources --cached",
    "top",
    "top pod",
    "top node",
    "version",
];
