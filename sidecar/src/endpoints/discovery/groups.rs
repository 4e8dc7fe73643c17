//! Builds `/apis` and below: each group with its one version and its resources (apimachinery: `APIGroup`,
//! `APIResourceList`; `apidiscovery.k8s.io`).

use kubectl_mc_api::Origin;
use serde_json::{Value, json};

/// An aggregator compares these exactly with the type that it requested.
pub(super) const AGGREGATED_V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
pub(super) const AGGREGATED_V2BETA1: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

pub(super) fn list(groups: &[Value]) -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

pub(super) fn group(origin: Origin) -> Value {
    let version = json!({"groupVersion": group_version(origin), "version": origin.grant_version()});
    json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": origin.grant_group(),
        "versions": [version],
        "preferredVersion": version,
    })
}

/// A subresource must follow its resource, or the aggregator cannot assign it.
pub(super) fn resources(origin: Origin) -> Value {
    let (resource, kind) = (origin.grant_resource(), kind(origin));
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version(origin),
        "resources": [
            {"name": resource, "singularName": singular(origin), "namespaced": false, "kind": kind,
             "verbs": verbs(origin)},
            {"name": format!("{resource}/proxy"), "singularName": "", "namespaced": false, "kind": kind,
             "verbs": CONNECT},
        ],
    })
}

/// All of the above in one document. A `responseKind` of null breaks older clients
/// (kubernetes/kubernetes#118361).
pub(super) fn aggregated(version: &str, items: &[Value]) -> Value {
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
}

pub(super) fn aggregated_group(origin: Origin) -> Value {
    let (group, version) = (origin.grant_group(), origin.grant_version());
    let kind = json!({"group": group, "version": version, "kind": kind(origin)});
    json!({
        "metadata": {"name": group, "creationTimestamp": null},
        "versions": [{
            "version": version,
            "resources": [{
                "resource": origin.grant_resource(),
                "responseKind": kind,
                "scope": "Cluster",
                "singularResource": singular(origin),
                "verbs": verbs(origin),
                "subresources": [{"subresource": "proxy", "responseKind": kind, "verbs": CONNECT}],
            }],
            "freshness": "Current",
        }],
    })
}

fn group_version(origin: Origin) -> String {
    format!("{}/{}", origin.grant_group(), origin.grant_version())
}

/// The kind of the resource that has the proxy.
pub(super) const fn kind(origin: Origin) -> &'static str {
    match origin {
        Origin::MemberCluster | Origin::Karmada => "Cluster",
        Origin::KubeAdmiral => "Aggregations",
    }
}

const fn singular(origin: Origin) -> &'static str {
    match origin {
        Origin::MemberCluster | Origin::Karmada => "cluster",
        Origin::KubeAdmiral => "aggregations",
    }
}

/// The verbs of the resource itself. KubeAdmiral's has only the proxy.
const fn verbs(origin: Origin) -> &'static [&'static str] {
    match origin {
        Origin::MemberCluster => &["get", "list", "watch"],
        Origin::Karmada | Origin::KubeAdmiral => &[],
    }
}

const CONNECT: [&str; 5] = ["create", "delete", "get", "patch", "update"];
