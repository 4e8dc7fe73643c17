//! At members without aggregated discovery (before Kubernetes 1.27), the plugin uses the old
//! discovery, as kubectl does.

use anyhow::Result;
use harness::fake_member::{FakeMember, Request, Step, reply};
use harness::scene::{EVERY_VERB, Scene};
use serde_json::json;

use crate::plugin;

#[test]
fn short_names_groups_and_categories_match_kubectl() -> Result<()> {
    let scene = Scene::on("m1", "old-member")?;
    let fake = FakeMember::start("e2e-old-member", old)?;
    let caller = scene.caller()?;
    scene.let_in(&caller, &["m1", &fake.name], EVERY_VERB)?;
    let plugin = plugin(&caller)?.with(&["--namespace", &scene.name, "-C", &format!("{},m1", fake.name)]);
    for (words, path) in [
        (&["get", "deploy"][..], "/apis/apps/v1/"),
        (&["get", "hpa"], "/apis/autoscaling/v2/"),
        (&["get", "hpa.v1.autoscaling"], "/apis/autoscaling/v1/"),
    ] {
        let output = plugin.run(words)?;
        assert_eq!(output.code, 0, "{output:?}");
        let kind = if path.contains("apps") { "deployments" } else { "horizontalpodautoscalers" };
        let asked = fake.requests(&format!("{path}namespaces/{}/{kind}", scene.name));
        assert_eq!(asked.len(), 1, "{words:?}: {asked:?}");
        assert!(output.text().contains("e2e-old-member   old"), "{output:?}");
    }
    Ok(())
}

/// Three API groups, one of which is unavailable at the moment.
fn old(request: &Request) -> Vec<Step> {
    let group = |name: &str, versions: &[&str], preferred: &str| {
        let version =
            |version: &str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
        let all: Vec<_> = versions.iter().map(|text| version(text)).collect();
        json!({"name": name, "versions": all, "preferredVersion": version(preferred)})
    };
    let types = |name: &str, kind: &str, short: &str| {
        json!({"kind": "APIResourceList", "resources": [
            {"name": name, "singularName": "", "namespaced": true, "kind": kind, "shortNames": [short], "verbs": ["list"]},
            {"name": format!("{name}/status"), "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get"]},
        ]})
    };
    let target = request.target().split('?').next().unwrap_or_default();
    let body = match target {
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"]}),
        "/apis" => json!({"kind": "APIGroupList", "groups": [
            group("apps", &["v1"], "v1"), group("autoscaling", &["v1", "v2"], "v2"),
            group("gone.example", &["v1"], "v1"),
        ]}),
        "/api/v1" => types("pods", "Pod", "po"),
        "/apis/apps/v1" => types("deployments", "Deployment", "deploy"),
        "/apis/autoscaling/v1" | "/apis/autoscaling/v2" => {
            types("horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa")
        }
        "/apis/gone.example/v1" => return reply("503 Service Unavailable", "", "service unavailable\n"),
        _ => json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"},
            "columnDefinitions": [{"name": "Name", "type": "string"}],
            "rows": [{"cells": ["old"], "object": {"metadata": {"name": "old"}}}],
        }),
    };
    reply("200 OK", "Content-Type: application/json\r\n", &body.to_string())
}
