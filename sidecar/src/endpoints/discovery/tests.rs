use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use serde_json::{Value, json};

use super::*;

const ALL: [Document; 7] = [
    Document::Groups,
    Document::Group(Origin::MemberCluster),
    Document::Resources(Origin::MemberCluster),
    Document::OpenApiV2,
    Document::OpenApiV3Index,
    Document::OpenApiV3(Origin::MemberCluster),
    Document::Version,
];

fn get(document: Document, headers: &[(http::HeaderName, &str)]) -> Response<Body> {
    let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
    Documents::new(None).respond(document, &headers)
}

fn json(response: Response<Body>) -> Value {
    assert_eq!(response.status(), StatusCode::OK);
    let Body::Full(body) = response.into_body() else { panic!("a whole document") };
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn documents_are_json_and_304_if_unchanged() {
    for document in ALL {
        let first = get(document, &[]);
        assert_eq!(first.headers()[CONTENT_TYPE], "application/json", "{document:?}");
        let tag = first.headers()[ETAG].to_str().unwrap().to_owned();
        assert!(json(first).is_object());
        for known in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
            let second = get(document, &[(IF_NONE_MATCH, &known)]);
            assert_eq!(second.status(), StatusCode::NOT_MODIFIED, "{document:?} {known}");
            assert!(matches!(second.body(), Body::Empty));
            assert_eq!(second.headers()[ETAG], tag);
        }
        assert_eq!(get(document, &[(IF_NONE_MATCH, "\"other\"")]).status(), StatusCode::OK);
    }
}

#[test]
fn aggregated_discovery_echoes_the_requested_content_type() {
    let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let v2beta1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    for (accept, content_type, version) in [
        (format!("{v2},{v2beta1}"), v2, "apidiscovery.k8s.io/v2"),
        (format!("{v2beta1},application/json"), v2beta1, "apidiscovery.k8s.io/v2beta1"),
        (format!("{v2};profile=nopeer,{v2},application/json"), v2, "apidiscovery.k8s.io/v2"),
    ] {
        let response = get(Document::Groups, &[(ACCEPT, &accept)]);
        assert_eq!(response.headers()[CONTENT_TYPE], content_type);
        assert_eq!(response.headers()[VARY], "Accept");
        assert_eq!(json(response)["apiVersion"], version);
    }
    let plain = get(Document::Groups, &[(ACCEPT, "application/json")]);
    assert_eq!(json(plain)["kind"], "APIGroupList");
}

#[test]
fn aggregated_discovery_lists_resource_and_subresource() {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let list = json(get(Document::Groups, &[(ACCEPT, accept)]));
    let kind = json!({"group": "proxy.kubectl-mc.dev", "version": "v1alpha1", "kind": "Cluster"});
    let expected = json!([{
        "resource": "clusters",
        "responseKind": kind,
        "scope": "Cluster",
        "singularResource": "cluster",
        "verbs": ["get", "list", "watch"],
        "subresources": [
            {"subresource": "proxy", "responseKind": kind, "verbs": ["create", "delete", "get", "patch", "update"]},
        ],
    }]);
    assert_eq!(list["items"][0]["versions"][0]["resources"], expected);
    assert_eq!(list["items"][0]["metadata"]["name"], "proxy.kubectl-mc.dev");
}

#[test]
fn plain_discovery_matches_aggregated_discovery() {
    let group = json(get(Document::Group(Origin::MemberCluster), &[]));
    assert_eq!(group["name"], "proxy.kubectl-mc.dev");
    assert_eq!(group["preferredVersion"]["groupVersion"], "proxy.kubectl-mc.dev/v1alpha1");
    let resources = json(get(Document::Resources(Origin::MemberCluster), &[]));
    let short: Vec<_> = resources["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| {
            (&resource["name"], &resource["kind"], &resource["namespaced"], &resource["singularName"])
        })
        .collect();
    let [clusters, proxy, kind, cluster] =
        ["clusters", "clusters/proxy", "Cluster", "cluster"].map(Value::from);
    let no = Value::from(false);
    assert_eq!(short, [(&clusters, &kind, &no, &cluster), (&proxy, &kind, &no, &Value::from(""))]);
}

#[test]
fn openapi_is_json_for_clients_that_accept_json() {
    for document in [Document::OpenApiV2, Document::OpenApiV3(Origin::MemberCluster)] {
        let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
        assert_eq!(get(document, &[(ACCEPT, protobuf)]).status(), StatusCode::NOT_ACCEPTABLE);
        let either = format!("{protobuf}, application/json");
        assert_eq!(get(document, &[(ACCEPT, &either)]).status(), StatusCode::OK);
    }
}

#[test]
fn index_links_to_the_document_by_its_hash() {
    let index = json(get(Document::OpenApiV3Index, &[]));
    let url = index["paths"]["apis/proxy.kubectl-mc.dev/v1alpha1"]["serverRelativeURL"].as_str().unwrap();
    let (path, hash) = url.split_once("?hash=").unwrap();
    assert_eq!(path, "/openapi/v3/apis/proxy.kubectl-mc.dev/v1alpha1");
    assert_eq!(get(Document::OpenApiV3(Origin::MemberCluster), &[]).headers()[ETAG], format!("\"{hash}\""));
}

/// The parts that `kubectl explain` reads: path, operation, kind, schema, properties.
#[test]
fn openapi_explains_clusters() {
    for (document, schemas, security) in [
        (Document::OpenApiV2, "/definitions", "/securityDefinitions"),
        (Document::OpenApiV3(Origin::MemberCluster), "/components/schemas", "/components/securitySchemes"),
    ] {
        let document = json(get(document, &[]));
        let path = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters";
        let kind = &document["paths"][path]["get"]["x-kubernetes-group-version-kind"];
        assert_eq!(*kind, json!({"group": "proxy.kubectl-mc.dev", "version": "v1alpha1", "kind": "Cluster"}));
        let schemas = document.pointer(schemas).unwrap().as_object().unwrap();
        let of_kind = |schema: &&Value| schema["x-kubernetes-group-version-kind"] == json!([kind]);
        let cluster = schemas.values().find(of_kind).unwrap();
        assert!(cluster["properties"]["status"].is_object());
        assert_eq!(document.pointer(security).unwrap()["BearerToken"]["name"], "authorization");
        for path in [
            format!("{path}/{{name}}"),
            format!("{path}/{{name}}/proxy"),
            format!("{path}/{{name}}/proxy/{{path}}"),
        ] {
            assert!(document["paths"][&path]["get"].is_object(), "{path}");
        }
        for reference in references(&document) {
            assert!(document.pointer(&reference[1..]).is_some(), "{reference} leads somewhere");
        }
    }
}

/// Fails if the schemas and the objects differ.
#[test]
fn openapi_has_every_field_of_a_shown_cluster() {
    let document = json(get(Document::OpenApiV3(Origin::MemberCluster), &[]));
    let schema =
        |name: &str| &document["components"]["schemas"][format!("dev.kubectl-mc.proxy.v1alpha1.{name}")];
    for (name, fields) in [
        ("Cluster", ["apiVersion", "kind", "metadata", "status"].as_slice()),
        ("ClusterMetadata", &["name", "uid", "resourceVersion", "creationTimestamp", "labels"]),
        ("ClusterStatus", &["server", "version", "lastSeen", "conditions"]),
        ("ClusterListMetadata", &["resourceVersion", "continue", "remainingItemCount"]),
    ] {
        let mut expected = fields.to_vec();
        expected.sort_unstable();
        let mut known: Vec<_> =
            schema(name)["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        known.sort_unstable();
        assert_eq!(known, expected, "{name}");
    }
}

/// The parts of a hub's group that a kube-apiserver's aggregator and kubectl read.
#[test]
fn kubeadmirals_group_is_described_completely() {
    let documents = Documents::new(Some(Origin::KubeAdmiral));
    let get = |document, accept: &str| {
        let headers = [(ACCEPT, accept.parse().unwrap())].into_iter().collect();
        json(documents.respond(document, &headers))
    };
    let (plain, group) = ("application/json", "aggregated.kubeadmiral.io");
    let names = |list: &Value, name: &str| -> Vec<Value> {
        list.as_array().unwrap().iter().map(|group| group.pointer(name).unwrap().clone()).collect()
    };
    let both = [json!("proxy.kubectl-mc.dev"), json!(group)];
    assert_eq!(names(&get(Document::Groups, plain)["groups"], "/name"), both);
    let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let aggregated = get(Document::Groups, v2);
    assert_eq!(names(&aggregated["items"], "/metadata/name"), both);
    let kind = json!({"group": group, "version": "v1alpha1", "kind": "Aggregations"});
    let resource = &aggregated["items"][1]["versions"][0]["resources"][0];
    assert_eq!(
        (&resource["resource"], &resource["verbs"], &resource["subresources"][0]["responseKind"]),
        (&json!("aggregations"), &json!([]), &kind)
    );
    assert_eq!(get(Document::Group(Origin::KubeAdmiral), plain)["name"], group);
    let resources = get(Document::Resources(Origin::KubeAdmiral), plain)["resources"].clone();
    assert_eq!(names(&resources, "/name"), [json!("aggregations"), json!("aggregations/proxy")]);
    let index = get(Document::OpenApiV3Index, plain)["paths"].clone();
    assert_eq!(index.as_object().unwrap().len(), 2);
    let of_both = get(Document::OpenApiV2, plain);
    let proxy = format!("/apis/{group}/v1alpha1/aggregations/{{name}}/proxy");
    for document in [get(Document::OpenApiV3(Origin::KubeAdmiral), plain), of_both.clone()] {
        let operation = &document["paths"][&proxy]["get"];
        assert_eq!(operation["operationId"], "getAggregationsProxy");
        assert_eq!(operation["x-kubernetes-group-version-kind"], kind);
    }
    let mut ids: Vec<_> = of_both["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|path| path.as_object().unwrap().values())
        .filter_map(|operation| operation["operationId"].as_str())
        .collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "each operation has an id of its own");
}

#[test]
fn hub_group_is_served_where_the_hub_is_configured() {
    for (hub, served) in [(None, false), (Some(Origin::KubeAdmiral), true)] {
        let documents = Documents::new(hub);
        assert!(documents.has_group(Origin::MemberCluster) && !documents.has_group(Origin::Karmada));
        assert_eq!(documents.has_group(Origin::KubeAdmiral), served);
        for document in [Document::Group, Document::Resources, Document::OpenApiV3] {
            let status = documents.respond(document(Origin::KubeAdmiral), &HeaderMap::new()).status();
            assert_eq!(status == StatusCode::OK, served);
        }
    }
}

#[test]
fn version_is_the_sidecars_own() {
    let info = json(get(Document::Version, &[]));
    assert_eq!(info["gitVersion"], concat!("v", env!("CARGO_PKG_VERSION")));
    let documented = json(get(Document::OpenApiV3(Origin::MemberCluster), &[]))["info"].clone();
    assert_eq!(
        (&documented["version"], &documented["x-git-commit"]),
        (&info["gitVersion"], &info["gitCommit"])
    );
    let platform = info["platform"].as_str().unwrap();
    assert!(platform.starts_with("linux/") && !platform.contains("x86_64"), "{platform}");
}

fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            let own = fields.get("$ref").and_then(Value::as_str).map(str::to_owned);
            own.into_iter().chain(fields.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}
