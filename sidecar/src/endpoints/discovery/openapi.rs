//! OpenAPI of the group, version 2 for the host's merged document and version 3 for who reads it
//! from here: `kubectl explain clusters.proxy.kubectl-mc.dev`.
//!
//! The host takes the security definitions over with the rest, so both documents have them. The
//! schemas have names of their own: where the host knows another one by the same name, it renames.

use kubectl_mc_api::path::{CLUSTERS_PATH, PROXY_GROUP, PROXY_GROUP_VERSION, PROXY_VERSION};
use serde_json::{Map, Value, json};

use super::version::{GIT_COMMIT, GIT_VERSION};

mod schemas;

/// The two editions of OpenAPI write the same things differently.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edition {
    V2,
    V3,
}

pub(super) fn v2() -> Value {
    json!({
        "swagger": "2.0",
        "info": info(),
        "paths": Edition::V2.paths(),
        "definitions": schemas::all(Edition::V2),
        "securityDefinitions": security(),
        "security": [{"BearerToken": []}],
    })
}

pub(super) fn v3() -> Value {
    json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": Edition::V3.paths(),
        "components": {"schemas": schemas::all(Edition::V3), "securitySchemes": security()},
        "security": [{"BearerToken": []}],
    })
}

/// Clients keep a document for as long as its hash stays.
pub(super) fn v3_index(hash: &str) -> Value {
    let path = format!("apis/{PROXY_GROUP_VERSION}");
    json!({"paths": {path: {"serverRelativeURL": format!("/openapi/v3/apis/{PROXY_GROUP_VERSION}?hash={hash}")}}})
}

impl Edition {
    fn reference(self, schema: &str) -> Value {
        let parent = match self {
            Self::V2 => "definitions",
            Self::V3 => "components/schemas",
        };
        json!({"$ref": format!("#/{parent}/{}", schemas::name(schema))})
    }

    fn paths(self) -> Value {
        let cluster = format!("{CLUSTERS_PATH}/{{name}}");
        let parameters: Vec<_> = LIST_OPTIONS.iter().map(|option| self.query(option)).collect();
        let list = self.operation("list", "list or watch the clusters", "listCluster", Some("ClusterList"));
        let get = self.operation("get", "read the specified cluster", "readCluster", Some("Cluster"));
        let proxy = |suffix| Value::Object(self.proxy(suffix));
        let (name, path) = (self.in_path(NAME), self.in_path(PATH));
        json!({
            CLUSTERS_PATH: {"get": with(list, "parameters", json!(parameters))},
            format!("{cluster}/proxy"): with(proxy(""), "parameters", json!([name])),
            format!("{cluster}/proxy/{{path}}"): with(proxy("WithPath"), "parameters", json!([name, path])),
            cluster: {"get": get, "parameters": [name]},
        })
    }

    fn proxy(self, suffix: &str) -> Map<String, Value> {
        let operation = |method: &str| {
            let description = format!("send {} requests to the API of the cluster", method.to_uppercase());
            let operation =
                self.operation("connect", &description, &format!("{method}ClusterProxy{suffix}"), None);
            (method.to_owned(), operation)
        };
        ["get", "post", "put", "patch", "delete"].map(operation).into_iter().collect()
    }

    fn operation(self, action: &str, description: &str, id: &str, answer: Option<&str>) -> Value {
        let schema = answer.map_or_else(|| json!({"type": "string"}), |answer| self.reference(answer));
        let media_type = if answer.is_some() { "application/json" } else { "*/*" };
        let mut operation = json!({
            "description": description,
            "operationId": id,
            "tags": [TAG],
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind("Cluster"),
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

fn kind(kind: &str) -> Value {
    json!({"group": PROXY_GROUP, "version": PROXY_VERSION, "kind": kind})
}

fn with(mut object: Value, key: &str, value: Value) -> Value {
    object[key] = value;
    object
}

const TAG: &str = "proxyKubectlMcDev_v1alpha1";
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
