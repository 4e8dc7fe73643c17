use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube::core::DynamicObject;
use kube::runtime::watcher::Event;
use kubectl_mc_api::ownership::{Layout, rbac};
use serde_json::{Value, json};

use super::host::{Failure, carry_out};
use super::state::{Agents, Source, Step};
use crate::host::fake::host;

fn object(value: &Value) -> DynamicObject {
    serde_json::from_value(value.clone()).unwrap()
}

fn cluster(name: &str, mode: &str) -> DynamicObject {
    object(&json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"syncMode": mode},
    }))
}

/// The objects on the host after the RBAC of the agent is written.
fn kept(cluster: &str) -> Vec<Value> {
    let mut objects = rbac::objects(&Layout::default(), cluster);
    for object in &mut objects {
        object["metadata"]["labels"]["fleet.kubectl-mc.dev/kept-by"] = "ns".into();
        object["metadata"]["uid"] = "u".into();
    }
    objects
}

fn source(object: &Value) -> Source {
    let kind = |source: &Source| object["kind"] == source.kind();
    Source::ALL.into_iter().find(kind).unwrap()
}

/// A state in which these Clusters and these objects were read.
fn agents(clusters: &[DynamicObject], objects: &[Value]) -> Agents {
    let mut agents = Agents::new(Arc::default(), "ns");
    for kind in Source::ALL {
        assert!(!agents.is_read());
        agents.take(kind, Event::Init);
        if kind == Source::Clusters {
            clusters.iter().for_each(|one| agents.take(kind, Event::InitApply(one.clone())));
        }
        let of_kind = objects.iter().filter(|object| source(object) == kind);
        of_kind.for_each(|one| agents.take(kind, Event::InitApply(self::object(one))));
        agents.take(kind, Event::InitDone);
    }
    assert!(agents.is_read());
    agents
}

/// `apply Role/karmada-es-m1/system:karmada:m1:agent-work`
fn told(steps: &[Step]) -> Vec<String> {
    let line = |step: &Step| {
        let (verb, key) = match step {
            Step::Apply(key, _) => ("apply", key),
            Step::Delete { key, uid } => {
                assert_eq!(uid.as_deref(), Some("u"));
                ("delete", key)
            }
        };
        format!("{verb} {}/{}/{}", key.source.kind(), key.namespace, key.name)
    };
    steps.iter().map(line).collect()
}

const WORK: &str = "Role/karmada-es-m1/system:karmada:m1:agent-work";

fn work(objects: &mut [Value]) -> &mut Value {
    let is_work = |object: &&mut Value| {
        object["kind"] == "Role" && object["metadata"]["name"] == "system:karmada:m1:agent-work"
    };
    objects.iter_mut().find(is_work).unwrap()
}

#[test]
fn new_cluster_in_pull_mode_gets_all_objects() {
    let mut agents = agents(&[cluster("m2", "Push")], &[]);
    assert!(agents.changed().is_empty());
    agents.take(Source::Clusters, Event::Apply(cluster("m1", "Pull")));
    assert_eq!(agents.changed(), ["m1".to_owned()].into());
    let steps = agents.steps("m1");
    assert_eq!(steps.len(), 10);
    assert_eq!(told(&steps)[0], "apply ClusterRole//system:karmada:m1:agent");
    let Step::Apply(_, applied) = &steps[0] else { panic!() };
    assert_eq!(applied["metadata"]["labels"]["fleet.kubectl-mc.dev/kept-by"], "ns");
    for object in kept("m1") {
        agents.take(source(&object), Event::Apply(self::object(&object)));
    }
    assert!(agents.changed().is_empty() && agents.steps("m1").is_empty() && agents.steps("m2").is_empty());
}

#[test]
fn deleted_and_changed_objects_are_put_back() {
    let objects = kept("m1");
    let mut agents = agents(&[cluster("m1", "Pull")], &objects);
    assert!(agents.steps("m1").is_empty());
    agents.changed();
    let mut changed = objects.clone();
    work(&mut changed)["rules"][0]["verbs"] = json!(["*"]);
    let wide = object(work(&mut changed));
    agents.take(Source::Roles, Event::Apply(wide.clone()));
    assert_eq!(agents.changed(), ["m1".to_owned()].into());
    assert_eq!(told(&agents.steps("m1")), [format!("apply {WORK}")]);
    agents.take(Source::Roles, Event::Delete(wide));
    assert_eq!(agents.changed(), ["m1".to_owned()].into());
    assert_eq!(told(&agents.steps("m1")), [format!("apply {WORK}")]);
}

#[test]
fn binding_of_another_role_is_replaced() {
    let mut objects = kept("m1");
    let binding = objects.iter_mut().find(|object| object["kind"] == "ClusterRoleBinding").unwrap();
    binding["roleRef"]["name"] = "cluster-admin".into();
    let role = objects.iter_mut().find(|object| object["kind"] == "ClusterRole").unwrap();
    role["aggregationRule"] = json!({});
    let name = "system:karmada:m1:agent";
    let expected = ["ClusterRole", "ClusterRoleBinding"]
        .map(|kind| [format!("delete {kind}//{name}"), format!("apply {kind}//{name}")]);
    assert_eq!(told(&agents(&[cluster("m1", "Pull")], &objects).steps("m1")), expected.concat());
}

#[test]
fn gone_cluster_loses_kept_objects_bindings_first() {
    let mut objects = kept("m1");
    // Its labels alone do not make it an agent's object.
    let mut foreign = work(&mut objects).clone();
    foreign["metadata"]["name"] = "mine".into();
    objects.push(foreign);
    let mut agents = agents(&[cluster("m1", "Pull")], &objects);
    agents.changed();
    agents.take(Source::Clusters, Event::Delete(cluster("m1", "Pull")));
    assert_eq!(agents.changed(), ["m1".to_owned()].into());
    let steps = told(&agents.steps("m1"));
    assert_eq!(steps.len(), 10);
    assert_eq!(steps[0], "delete RoleBinding/karmada-system/system:karmada:m1:agent-election");
    assert!(!steps.iter().any(|step| step.ends_with("/mine")), "{steps:?}");
    for object in kept("m1") {
        agents.take(source(&object), Event::Delete(self::object(&object)));
    }
    assert!(agents.steps("m1").is_empty());
}

#[test]
fn cluster_that_a_new_list_lacks_is_gone() {
    let mut agents = agents(&[cluster("m1", "Pull")], &kept("m1"));
    agents.changed();
    agents.take(Source::Clusters, Event::Init);
    assert!(agents.changed().is_empty());
    agents.take(Source::Clusters, Event::InitDone);
    assert_eq!(agents.steps("m1").len(), 10);
}

#[test]
fn annotated_and_reserved_clusters_get_nothing() {
    let mut taken = cluster("m1", "Pull");
    taken.metadata.annotations = Some([("fleet.kubectl-mc.dev/agent-rbac".into(), "None".into())].into());
    let reserved = ["rbac-generator", "m1-impersonator"].map(|name| cluster(name, "Pull"));
    let agents = agents(&[&[taken], &reserved[..]].concat(), &[]);
    for name in ["m1", "rbac-generator", "m1-impersonator"] {
        assert!(agents.steps(name).is_empty(), "{name}");
    }
}

#[tokio::test]
async fn role_of_a_registrations_binding_is_replaced() {
    let count = Arc::new(AtomicUsize::new(0));
    let asked = count.clone();
    let (client, _) = host(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => {
            let causes =
                json!([{"reason": "FieldValueInvalid", "field": "roleRef", "message": "cannot change"}]);
            let details = json!({"causes": causes});
            (422, json!({"kind": "Status", "status": "Failure", "code": 422, "details": details}))
        }
        _ => (200, json!({"metadata": {"name": "n"}})),
    });
    let steps = agents(&[cluster("m1", "Pull")], &[]).steps("m1");
    assert_eq!(carry_out(&client, vec![steps[1].clone()]).await, Ok(1));
    // Refused, deleted, applied.
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn failure_stops_no_later_write_and_a_refusal_is_told() {
    let (client, asked) = host(|body| match body["metadata"]["namespace"].as_str() {
        Some("karmada-es-m1") => (404, status(404, "namespaces \"karmada-es-m1\" not found")),
        Some("default") => (403, status(403, "forbidden by a policy")),
        _ => (200, json!({"metadata": {"name": "n"}})),
    });
    let steps = agents(&[cluster("m1", "Pull")], &[]).steps("m1");
    let absent = steps.iter().filter(|step| told(&[(*step).clone()])[0].contains("karmada-es-m1"));
    let failed = carry_out(&client, absent.cloned().collect()).await.unwrap_err();
    assert!(failed.is_absent, "{failed:?}");
    let failed = carry_out(&client, steps).await.unwrap_err();
    let message = "Role system:karmada:m1:agent-events: forbidden by a policy".to_owned();
    assert_eq!(failed, Failure { message, is_absent: false });
    assert_eq!(asked.load(Ordering::SeqCst), 12);
}

fn status(code: u16, message: &str) -> Value {
    json!({"kind": "Status", "status": "Failure", "code": code, "message": message})
}
