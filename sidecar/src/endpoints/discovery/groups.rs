//! `/apis` and below: the group, its one version and its resources (apimachinery: `APIGroup`,
//! `APIResourceList`; `apidiscovery.k8s.io`).

use kubectl_mc_api::path::{CLUSTERS, PROXY_GROUP, PROXY_GROUP_VERSION, PROXY_VERSION};
use serde_json::{Value, json};

/// An aggregator compares these with what it asked for, to the letter.
pub(super) const AGGREGATED_V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
pub(super) const AGGREGATED_V2BETA1: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

pub(super) fn list() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group()]})
}

pub(super) fn group() -> Value {
    let version = json!({"groupVersion": PROXY_GROUP_VERSION, "version": PROXY_VERSION});
    json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": PROXY_GROUP,
        "versions": [version],
        "preferredVersion": version,
    })
}

/// A subresource comes after its resource, or the aggregator cannot tell whose it is.
pub(super) fn resources() -> Value {
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": PROXY_GROUP_VERSION,
        "resources": [
            {"name": CLUSTERS, "singularName": SINGULAR, "namespaced": false, "kind": KIND, "verbs": READ},
            {"name": format!("{CLUSTERS}/proxy"), "singularName": "", "namespaced": false, "kind": KIND,
             "verbs": CONNECT},
        ],
    })
}

/// All of the above in one. A `responseKind` that is null stops older clients
/// (kubernetes/kubernetes#118361).
pub(super) fn aggregated(version: &str) -> Value {
    let kind = json!({"group": PROXY_GROUP, "version": PROXY_VERSION, "kind": KIND});
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": [{
            "metadata": {"name": PROXY_GROUP, "creationTimestamp": null},
            "versions": [{
                "version": PROXY_VERSION,
                "resources": [{
                    "resource": CLUSTERS,
                    "responseKind": kind,
                    "scope": "Cluster",
                    "singularResource": SINGULAR,
                    "verbs": READ,
                    "subresources": [{"subresource": "proxy", "responseKind": kind, "verbs": CONNECT}],
                }],
                "freshness": "Current",
            }],
        }],
    })
}

const KIND: &str = "Cluster";
const SINGULAR: &str = "cluster";
const READ: [&str; 3] = ["get", "list", "watch"];
const CONNECT: [&str; 5] = ["create", "delete", "get", "patch", "update"];
