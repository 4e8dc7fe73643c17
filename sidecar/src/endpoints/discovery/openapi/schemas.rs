//! The schemas of the objects in `clusters`.

use serde_json::{Value, json};

use super::{Edition, kind, with};

/// A schema's full name: the reversed group name, as in Kubernetes.
pub(super) fn name(schema: &str) -> String {
    format!("dev.kubectl-mc.proxy.v1alpha1.{schema}")
}

pub(super) fn all(edition: Edition) -> Value {
    json!({
        name("Cluster"): cluster(edition),
        name("ClusterList"): list(edition),
        name("ClusterMetadata"): metadata(),
        name("ClusterListMetadata"): list_metadata(),
        name("ClusterStatus"): status(edition),
        name("Condition"): condition(),
    })
}

fn cluster(edition: Edition) -> Value {
    json!({
        "description": "A member cluster that is reached through this host. Read-only: it shows what \
                        MemberCluster of fleet.kubectl-mc.dev registers.",
        "type": "object",
        "properties": {
            "apiVersion": text(API_VERSION),
            "kind": text(KIND),
            "metadata": child(edition, "ClusterMetadata", "Name and labels of the cluster."),
            "status": child(edition, "ClusterStatus", "What is known of the cluster."),
        },
        "x-kubernetes-group-version-kind": [kind("Cluster")],
    })
}

fn list(edition: Edition) -> Value {
    json!({
        "description": "A list of clusters.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": text(API_VERSION),
            "kind": text(KIND),
            "metadata": child(edition, "ClusterListMetadata", "Version and continuation of the list."),
            "items": {"type": "array", "description": "The clusters.", "items": edition.reference("Cluster")},
        },
        "x-kubernetes-group-version-kind": [kind("ClusterList")],
    })
}

fn metadata() -> Value {
    json!({
        "description": "Name and labels of a cluster.",
        "type": "object",
        "properties": {
            "name": text("The name under which the cluster is reached through this host."),
            "uid": text("The uid of the MemberCluster."),
            "resourceVersion": text("The version of the MemberCluster."),
            "creationTimestamp": time("When the cluster was registered."),
            "labels": {
                "description": "The labels that select the cluster.",
                "type": "object",
                "additionalProperties": {"type": "string"},
            },
        },
    })
}

fn status(edition: Edition) -> Value {
    json!({
        "description": "What is known of a cluster.",
        "type": "object",
        "properties": {
            "server": text("The address of the cluster's kube-apiserver."),
            "version": text("The Kubernetes version of the cluster."),
            "lastSeen": text("When the cluster last answered: written on change, else at most every 5 minutes."),
            "conditions": {
                "description": "Reachable, CredentialValid, AuthSynced and Ready.",
                "type": "array",
                "items": edition.reference("Condition"),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        },
    })
}

fn condition() -> Value {
    json!({
        "description": "One aspect of the state of a cluster.",
        "type": "object",
        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": {
            "type": text("The aspect."),
            "status": text("True, False or Unknown."),
            "observedGeneration": {
                "description": "Generation of the MemberCluster that the condition describes.",
                "type": "integer",
                "format": "int64",
            },
            "lastTransitionTime": time("When the status last changed."),
            "reason": text("Why, in one word for programs."),
            "message": text("Why, in a sentence for people."),
        },
    })
}

fn list_metadata() -> Value {
    json!({
        "description": "Version and continuation of a list.",
        "type": "object",
        "properties": {
            "resourceVersion": text("The version that the list is of: a watch goes on from it."),
            "continue": text("The token of the next page, if there is one."),
            "remainingItemCount": {
                "description": "How many clusters follow on other pages, where that is known.",
                "type": "integer",
                "format": "int64",
            },
        },
    })
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn time(description: &str) -> Value {
    with(text(description), "format", json!("date-time"))
}

/// A property with its own schema. In version 3 a reference cannot have a description.
fn child(edition: Edition, schema: &str, description: &str) -> Value {
    let reference = edition.reference(schema);
    let property = match edition {
        Edition::V2 => reference,
        Edition::V3 => json!({"allOf": [reference]}),
    };
    with(property, "description", json!(description))
}

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object.";
const KIND: &str = "Kind is the type of the object.";
