//! Builds the groups' OpenAPI documents: version 2 for the host's merged document, and version 3 for direct
//! readers, such as `kubectl explain clusters.proxy.kubectl-mc.dev`.
//!
//! The host copies the security definitions as well, so both documents contain them. The schemas have unique
//! names: if the host has another schema with the same name, it renames one.

use kubectl_mc_api::Origin;
use serde_json::{Map, Value, json};

use super::groups;
use super::version::{GIT_COMMIT, GIT_VERSION};

mod schemas;

/// OpenAPI versions 2 and 3 have different syntax for the same content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edition {
    V2,
    V3,
}

pub(super) fn v2(served: &[Origin]) -> Value {
    let paths: Map<_, _> = served.iter().flat_map(|&origin| Edition::V2.paths(origin)).collect();
    json!({
        "swagger": "2.0",
        "info": info(),
        "paths": paths,
        "definitions": schemas::all(Edition::V2),
        "securityDefinitions": security(),
        "security": [{"BearerToken": []}],
    })
}

pub(super) fn v3(origin: Origin) -> Value {
    // A group of a hub has no objects.
    let schemas = if origin.is_hub() { json!({}) } else { schemas::all(Edition::V3) };
    json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": Edition::V3.paths(origin),
        "components": {"schemas": schemas, "securitySchemes": security()},
        "security": [{"BearerToken": []}],
    })
}

/// Merges another server's paths and schemas into the document.
pub(super) fn merged(mut own: Value, other: &Value) -> Value {
    for key in ["paths", "definitions"] {
        if let (Some(own), Some(other)) = (own[key].as_object_mut(), other[key].as_object()) {
            own.extend(other.clone());
        }
    }
    own
}

/// Clients cache a document until its hash changes.
pub(super) fn v3_index<'a>(hashes: impl Iterator<Item = (Origin, &'a str)>) -> Value {
    let documents = hashes.map(|(origin, hash)| {
        let path = format!("apis/{}/{}", origin.grant_group(), origin.grant_version());
        let url = format!("/openapi/v3/{path}?hash={hash}");
        (path, json!({"serverRelativeURL": url}))
    });
    json!({"paths": documents.collect::<Map<_, _>>()})
}

impl Edition {
    fn reference(self, schema: &str) -> Value {
        let parent = match self {
            Self::V2 => "definitions",
            Self::V3 => "components/schemas",
        };
        json!({"$ref": format!("#/{parent}/{}", schemas::name(schema))})
    }

    fn paths(self, origin: Origin) -> Map<String, Value> {
        let collection = origin.collection();
        let cluster = format!("{collection}/{{name}}");
        let proxy = |suffix| Value::Object(self.proxy(origin, suffix));
        let (name, path) = (self.in_path(NAME), self.in_path(PATH));
        let mut paths = Map::new();
        paths.insert(format!("{cluster}/proxy"), with(proxy(""), "parameters", json!([name])));
        let below = with(proxy("WithPath"), "parameters", json!([name, path]));
        paths.insert(format!("{cluster}/proxy/{{path}}"), below);
        if !origin.is_hub() {
            let of = |action, description, id, answer| {
                self.operation(origin, action, description, id, Some(answer))
            };
            let parameters: Vec<_> = LIST_OPTIONS.iter().map(|option| self.query(option)).collect();
            let list = of("list", "list or watch the clusters", "listCluster", "ClusterList");
            let list = json!({"get": with(list, "parameters", json!(parameters))});
            paths.insert(collection.to_owned(), list);
            let get = of("get", "read the specified cluster", "readCluster", "Cluster");
            paths.insert(cluster, json!({"get": get, "parameters": [name]}));
        }
        paths
    }

    fn proxy(self, origin: Origin, suffix: &str) -> Map<String, Value> {
        let kind = groups::kind(origin);
        let operation = |method: &str| {
            let description = format!("send {} requests to the API of the cluster", method.to_uppercase());
            let operation = self.operation(
                origin,
                "connect",
                &description,
                &format!("{method}{kind}Proxy{suffix}"),
                None,
            );
            (method.to_owned(), operation)
        };
        ["get", "post", "put", "patch", "delete"].map(operation).into_iter().collect()
    }

    fn operation(
        self,
        origin: Origin,
        action: &str,
        description: &str,
        id: &str,
        answer: Option<&str>,
    ) -> Value {
        let schema = answer.map_or_else(|| json!({"type": "string"}), |answer| self.reference(answer));
        let media_type = if answer.is_some() { "application/json" } else { "*/*" };
        let mut operation = json!({
            "description": description,
            "operationId": id,
            "tags": [tag(origin)],
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk(origin, groups::kind(origin)),
        });
        let ok = match self {
            Self::V2 => {
                operation = with(operation, "produces", json!([media_type]));
                json!({"description": "OK", "schema": schema})
            }
            Self::V3 => json!({"description": "OK", "content": {media_type: {"schema": schema}}}),
        };
        with(operation, "responses", json!({"200": ok, "401": {"description": "Unauthorized"}}))
    }

    fn in_path(self, (name, description): (&str, &str)) -> Value {
        let parameter = json!({"name": name, "in": "path", "required": true, "description": description});
        self.typed(parameter, "string")
    }

    fn query(self, (name, r#type, description): &(&str, &str, &str)) -> Value {
        self.typed(json!({"name": name, "in": "query", "description": description}), r#type)
    }

    fn typed(self, parameter: Value, r#type: &str) -> Value {
        match self {
            Self::V2 => with(parameter, "type", json!(r#type)),
            Self::V3 => with(parameter, "schema", json!({"type": r#type})),
        }
    }
}

fn info() -> Value {
    json!({"title": "kubectl-mc", "version": GIT_VERSION, "x-git-commit": GIT_COMMIT})
}

fn security() -> Value {
    json!({"BearerToken": {
        "type": "apiKey",
        "in": "header",
        "name": "authorization",
        "description": "Bearer Token authentication",
    }})
}

/// A kind of the sidecar's own group.
fn kind(kind: &str) -> Value {
    gvk(Origin::MemberCluster, kind)
}

fn gvk(origin: Origin, kind: &str) -> Value {
    json!({"group": origin.grant_group(), "version": origin.grant_version(), "kind": kind})
}

/// The tag of a group version, in Kubernetes' form.
fn tag(origin: Origin) -> &'static str {
    match origin {
        Origin::MemberCluster => "proxyKubectlMcDev_v1alpha1",
        Origin::Karmada => "clusterKarmadaIo_v1alpha1",
        Origin::KubeAdmiral => "aggregatedKubeadmiralIo_v1alpha1",
    }
}

fn with(mut object: Value, key: &str, value: Value) -> Value {
    object[key] = value;
    object
}

const NAME: (&str, &str) = ("name", "name of the cluster");
const PATH: (&str, &str) = ("path", "path below the root of the cluster's API");

const LIST_OPTIONS: [(&str, &str, &str); 10] = [
    ("allowWatchBookmarks", "boolean", "Whether a watch tells each minute how far it is."),
    ("continue", "string", "The token of the page before."),
    ("fieldSelector", "string", "Restricts the clusters by their fields: metadata.name."),
    ("labelSelector", "string", "Restricts the clusters by their labels."),
    ("limit", "integer", "The most clusters to answer in one page."),
    ("resourceVersion", "string", "The version to list, or to watch from."),
    ("resourceVersionMatch", "string", "How resourceVersion is applied to a list."),
    ("sendInitialEvents", "boolean", "Whether a watch begins with the clusters that are there."),
    ("timeoutSeconds", "integer", "After how long a watch ends."),
    ("watch", "boolean", "Watch instead of list."),
];
