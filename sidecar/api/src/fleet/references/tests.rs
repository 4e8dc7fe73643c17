use proptest::prelude::*;
use serde_json::json;

use super::*;

const NAMESPACED: Scope = Scope::Namespaced;
const CLUSTER: Scope = Scope::Cluster;

fn m1() -> ClusterName {
    "m1".parse().unwrap()
}

/// The object as the view shows it, after the way back gave the object of the member again.
#[track_caller]
fn shown(of: Type, object: Value) -> Value {
    let mut renamed = object.clone();
    to_fleet(&mut renamed, of, &m1());
    let mut back = renamed.clone();
    to_member(&mut back, of, &m1()).unwrap();
    if let Some(annotations) = back.pointer("/metadata/annotations")
        && annotations == &json!({})
        && object.pointer("/metadata/annotations").is_none()
    {
        back["metadata"].as_object_mut().unwrap().remove("annotations");
    }
    assert_eq!(back, object);
    renamed
}

#[track_caller]
fn refused(of: Type, mut object: Value) -> String {
    to_member(&mut object, of, &m1()).unwrap_err().to_string()
}

#[test]
fn pod_is_renamed_in_its_namespace_and_node() {
    let pods = Type::new("", "pods", "", NAMESPACED);
    let pod = json!({
        "metadata": {
            "name": "web", "namespace": "default", "resourceVersion": "7",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "node1"},
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"},
                {"apiVersion": "example.com/v1", "kind": "Node", "name": "other"},
            ],
        },
        "spec": {"nodeName": "node1", "priorityClassName": "high"},
        "status": {"nominatedNodeName": ""},
    });
    let renamed = shown(pods, pod);
    assert_eq!(
        renamed,
        json!({
            "metadata": {
                "name": "web", "namespace": "default_m1", "resourceVersion": "m1.7",
                "annotations": {CLUSTER_ANNOTATION: "m1"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "node1_m1"},
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"},
                    {"apiVersion": "example.com/v1", "kind": "Node", "name": "other"},
                ],
            },
            "spec": {"nodeName": "node1_m1", "priorityClassName": "high"},
            "status": {"nominatedNodeName": ""},
        })
    );
}

#[test]
fn cluster_scoped_object_is_renamed_and_a_definition_is_not() {
    let roles = Type::new("rbac.authorization.k8s.io", "clusterroles", "", CLUSTER);
    let role = shown(roles, json!({"metadata": {"name": "my_role"}, "rules": [{"resourceNames": ["a_m2"]}]}));
    assert_eq!(role["metadata"]["name"], "my_role_m1");
    assert_eq!(role["rules"][0]["resourceNames"][0], "a_m2");
    let definitions = Type::new("apiextensions.k8s.io", "customresourcedefinitions", "", CLUSTER);
    let definition = shown(definitions, json!({"metadata": {"name": "foos.example.com"}}));
    assert_eq!(definition["metadata"]["name"], "foos.example.com");
}

#[test]
fn object_that_claims_another_member_is_still_its_own_members() {
    let pods = Type::new("", "pods", "", NAMESPACED);
    let mut pod = json!({"metadata": {
        "namespace": "default_m2", "resourceVersion": "m2.7",
        "annotations": {CLUSTER_ANNOTATION: "m2"},
    }});
    to_fleet(&mut pod, pods, &m1());
    assert_eq!(
        pod["metadata"],
        json!({
            "namespace": "default_m2_m1", "resourceVersion": "m1.m2.7",
            "annotations": {CLUSTER_ANNOTATION: "m1"},
        })
    );
    let mut annotations = json!({"metadata": {"namespace": "default", "annotations": "m2"}});
    to_fleet(&mut annotations, pods, &m1());
    assert_eq!(annotations["metadata"]["annotations"], json!({CLUSTER_ANNOTATION: "m1"}));
}

#[test]
fn binding_is_renamed_where_a_kind_has_no_namespace() {
    let bindings = Type::new("rbac.authorization.k8s.io", "rolebindings", "", NAMESPACED);
    let group = "rbac.authorization.k8s.io";
    let binding = |namespace: &str, role: &str, account: &str| {
        json!({
            "metadata": {"name": "b", "namespace": namespace},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [
                {"kind": "ServiceAccount", "name": "default", "namespace": account},
                {"apiGroup": group, "kind": "User", "name": "bob_m1"},
            ],
        })
    };
    let mut renamed = shown(bindings, binding("fv", "my_role", "fv"));
    renamed["metadata"].as_object_mut().unwrap().remove("annotations");
    assert_eq!(renamed, binding("fv_m1", "my_role_m1", "fv_m1"));

    // A role with a namespace is in that of its binding.
    let mut own = binding("fv_m1", "a_m1", "fv_m1");
    own["roleRef"]["kind"] = json!("Role");
    to_member(&mut own, bindings, &m1()).unwrap();
    assert_eq!(own["roleRef"]["name"], "a_m1");
}

#[test]
fn event_is_renamed_in_what_it_is_about() {
    let events = Type::new("", "events", "", NAMESPACED);
    let event = |about: Value| {
        let event =
            json!({"metadata": {"namespace": "default"}, "involvedObject": about, "message": "node1"});
        shown(events, event)["involvedObject"].clone()
    };
    assert_eq!(
        event(json!({"kind": "Node", "name": "node1", "uid": "node1"})),
        json!({"kind": "Node", "name": "node1_m1", "uid": "node1"})
    );
    assert_eq!(
        event(json!({"kind": "Pod", "apiVersion": "v1", "name": "web", "namespace": "default"})),
        json!({"kind": "Pod", "apiVersion": "v1", "name": "web", "namespace": "default_m1"})
    );
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "name": "foos.example.com",
    });
    assert_eq!(event(definition.clone()), definition);
}

#[test]
fn other_references_are_renamed() {
    for (of, object, field, renamed) in [
        (
            Type::new("", "persistentvolumes", "", CLUSTER),
            json!({"spec": {"claimRef": {"namespace": "fv", "name": "data"}, "storageClassName": "fast"}}),
            "/spec/claimRef/namespace",
            "fv_m1",
        ),
        (
            Type::new("", "persistentvolumeclaims", "", NAMESPACED),
            json!({"spec": {"volumeName": "pv1"}}),
            "/spec/volumeName",
            "pv1_m1",
        ),
        (
            Type::new("discovery.k8s.io", "endpointslices", "", NAMESPACED),
            json!({"endpoints": [{"nodeName": "n1"}, {"targetRef": {"kind": "Pod", "namespace": "fv"}}]}),
            "/endpoints/1/targetRef/namespace",
            "fv_m1",
        ),
        (
            Type::new("batch", "cronjobs", "", NAMESPACED),
            json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {"nodeName": "n1"}}}}}}),
            "/spec/jobTemplate/spec/template/spec/nodeName",
            "n1_m1",
        ),
        (
            Type::new("", "pods", "binding", NAMESPACED),
            json!({"target": {"kind": "Node", "name": "n1"}}),
            "/target/name",
            "n1_m1",
        ),
        (
            Type::new("authorization.k8s.io", "selfsubjectaccessreviews", "", CLUSTER),
            json!({"spec": {"resourceAttributes": {
                "namespace": "default", "resource": "nodes", "name": "n1", "verb": "get"}}}),
            "/spec/resourceAttributes/name",
            "n1_m1",
        ),
    ] {
        assert_eq!(shown(of, object).pointer(field).unwrap(), renamed, "{field}");
    }
}

#[test]
fn name_of_another_member_is_refused() {
    let pods = Type::new("", "pods", "", NAMESPACED);
    let nodes = Type::new("", "nodes", "", CLUSTER);
    for (of, object, field) in [
        (pods, json!({"metadata": {"namespace": "default_m2"}}), "metadata.namespace"),
        (pods, json!({"metadata": {"namespace": "default"}}), "metadata.namespace"),
        (pods, json!({"metadata": {"annotations": {CLUSTER_ANNOTATION: "m2"}}}), "metadata.annotations"),
        (pods, json!({"metadata": {"resourceVersion": "m2.7"}}), "metadata.resourceVersion"),
        (pods, json!({"spec": {"nodeName": "node1_m2"}}), "spec.nodeName"),
        (pods, json!({"spec": {"nodeName": "node_1"}}), "spec.nodeName"),
        (nodes, json!({"metadata": {"name": "node1"}}), "metadata.name"),
        (nodes, json!({"metadata": {"name": "_m1"}}), "metadata.name"),
        (
            nodes,
            json!({"metadata": {"ownerReferences": [{"kind": "X", "name": "x_m2"}]}}),
            "metadata.ownerReferences[].name",
        ),
    ] {
        let error = refused(of, object);
        assert!(error.starts_with(field), "{error}");
        assert!(error.contains("m1"), "{error}");
    }
}

#[test]
fn name_without_a_member_stays_as_it_is() {
    let pods = Type::new("", "pods", "", NAMESPACED);
    let pod = json!({"metadata": {"name": "web", "resourceVersion": "7"}, "spec": {"nodeName": "node1"}});
    let mut sent = pod.clone();
    to_member(&mut sent, pods, &m1()).unwrap();
    assert_eq!(sent, pod);
}

#[test]
fn applied_object_is_renamed_as_kubectl_writes_it() {
    let deployments = Type::new("apps", "deployments", "", NAMESPACED);
    let applied = |namespace: &str| {
        format!(
            "{{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{{\"annotations\":{{}},\"name\":\"web\",\
             \"namespace\":\"{namespace}\"}},\"spec\":{{\"command\":\"a \\u003e b \\u0026\\u0026 c\",\"share\":0.5}}}}\n"
        )
    };
    let object = |namespace: &str| json!({"metadata": {"namespace": namespace, "annotations": {LAST_APPLIED: applied(namespace)}}});
    let mut renamed = shown(deployments, object("fv"));
    renamed["metadata"]["annotations"].as_object_mut().unwrap().remove(CLUSTER_ANNOTATION);
    assert_eq!(renamed, object("fv_m1"));

    for text in ["", "{", "{\"kind\": \"spaced\"}", "{\"metadata\":{\"namespace\":\"fv_m2\"}}"] {
        let mut foreign = json!({"metadata": {"annotations": {LAST_APPLIED: text}}});
        to_member(&mut foreign, deployments, &m1()).unwrap();
        assert_eq!(foreign["metadata"]["annotations"][LAST_APPLIED], text);
    }
}

#[test]
fn part_of_an_object_is_renamed_by_its_place() {
    let pods = Type::new("", "pods", "", NAMESPACED);
    for (place, part, sent) in [
        ("metadata/resourceVersion", json!("m1.7"), json!("7")),
        ("metadata/namespace", json!("fv_m1"), json!("fv")),
        ("metadata", json!({"namespace": "fv_m1"}), json!({"namespace": "fv"})),
        ("spec", json!({"nodeName": "n_m1"}), json!({"nodeName": "n"})),
        (
            "metadata/ownerReferences/-",
            json!({"apiVersion": "v1", "kind": "Node", "name": "n_m1"}),
            json!({"apiVersion": "v1", "kind": "Node", "name": "n"}),
        ),
        ("metadata/ownerReferences/0/name", json!("n"), json!("n")),
        ("spec/nodeName/deeper", json!("n_m1"), json!("n_m1")),
    ] {
        let place: Vec<_> = place.split('/').collect();
        let mut renamed = part;
        part_to_member(&mut renamed, &place, pods, &m1()).unwrap();
        assert_eq!(renamed, sent, "{place:?}");
    }
    for (place, part) in [
        ("metadata/namespace", json!("fv")),
        ("metadata/resourceVersion", json!("m2.7")),
        ("spec/nodeName", json!("n_m2")),
        // Whether the name of an owner has a suffix depends on its kind.
        ("metadata/ownerReferences/0/name", json!("n_m1")),
    ] {
        let place: Vec<_> = place.split('/').collect();
        part_to_member(&mut part.clone(), &place, pods, &m1()).unwrap_err();
    }
}

#[test]
fn member_of_a_body_is_its_own_name_or_what_it_asks_about() {
    let reviews = Type::new("authorization.k8s.io", "selfsubjectaccessreviews", "", CLUSTER);
    let rules = Type::new("authorization.k8s.io", "selfsubjectrulesreviews", "", CLUSTER);
    let namespaces = Type::new("", "namespaces", "", CLUSTER);
    let pods = Type::new("", "pods", "", NAMESPACED);
    for (of, body, member) in [
        (namespaces, json!({"metadata": {"name": "fv_m1"}}), Some("m1")),
        (namespaces, json!({"metadata": {"name": "fv"}}), None),
        (namespaces, json!({"metadata": {"generateName": "fv_m1"}}), None),
        (reviews, json!({"spec": {"resourceAttributes": {"namespace": "fv_m1"}}}), Some("m1")),
        (reviews, json!({"spec": {"resourceAttributes": {"name": "n1_m2"}}}), Some("m2")),
        (reviews, json!({"spec": {"resourceAttributes": {"namespace": "fv"}}}), None),
        (rules, json!({"spec": {"namespace": "fv_m1"}}), Some("m1")),
        (pods, json!({"metadata": {"name": "a_m1"}, "spec": {"nodeName": "n_m1"}}), None),
    ] {
        let named = named_member(&body, of);
        assert_eq!(named.as_ref().map(ClusterName::as_str), member, "{body}");
    }
}

/// Objects with the fields of the table, and names that look like those of the view.
fn object() -> impl Strategy<Value = Value> {
    let name = "[a-z]{1,3}(_m1|_m2|_|-x)?";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        name.prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "metadata",
        "namespace",
        "name",
        "resourceVersion",
        "ownerReferences",
        "kind",
        "apiVersion",
        "spec",
        "nodeName",
        "involvedObject",
        "roleRef",
        "subjects",
        "claimRef",
        "volumeName",
        "endpoints",
        "targetRef",
        "target",
        "resourceAttributes",
        "template",
        LAST_APPLIED,
        "annotations",
        "webhooks",
        "resource",
        "group",
    ]);
    leaf.prop_recursive(5, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner.clone(), 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            inner.prop_map(|object| Value::from(object.to_string())),
        ]
    })
}

proptest! {
    #[test]
    fn renamed_object_is_renamed_back(
        metadata in object(),
        mut object in object(),
        (group, resource, subresource) in prop::sample::select(vec![
            ("", "pods", ""), ("", "nodes", ""), ("", "events", ""), ("", "persistentvolumes", ""),
            ("rbac.authorization.k8s.io", "rolebindings", ""), ("", "pods", "binding"),
            ("authorization.k8s.io", "selfsubjectaccessreviews", ""), ("example.com", "foos", ""),
            ("discovery.k8s.io", "endpointslices", ""), ("apiextensions.k8s.io", "customresourcedefinitions", ""),
        ]),
    ) {
        if let Some(object) = object.as_object_mut() {
            object.insert("metadata".to_owned(), metadata);
        }
        let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
        let scope = if namespace.is_some_and(|namespace| !namespace.is_empty()) { NAMESPACED } else { CLUSTER };
        let of = Type::new(group, resource, subresource, scope);
        let mut renamed = object.clone();
        to_fleet(&mut renamed, of, &m1());
        to_member(&mut renamed, of, &m1()).unwrap();
        if let Some(metadata) = renamed.get_mut("metadata").and_then(Value::as_object_mut) {
            let before = object.pointer("/metadata/annotations");
            if !before.is_some_and(Value::is_object) {
                prop_assert_eq!(metadata.remove("annotations"), Some(serde_json::json!({})));
                if let Some(before) = before {
                    metadata.insert("annotations".to_owned(), before.clone());
                }
            }
        }
        prop_assert_eq!(renamed, object);
    }
}
