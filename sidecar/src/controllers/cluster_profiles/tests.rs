use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use kubectl_mc_api::{MemberCluster, Origin};
use serde_json::json;

use super::*;

type Shared<T> = Arc<Mutex<T>>;

/// A host's profiles by name, and the requests that it received. `None` is a host without the CRD.
#[derive(Default)]
struct Fake {
    profiles: Option<BTreeMap<String, Value>>,
    requests: Vec<String>,
}

fn profiles(fake: Fake) -> (Profiles, Shared<Fake>) {
    let fake = Arc::new(Mutex::new(fake));
    let shared = fake.clone();
    let host = tower::service_fn(move |request: Request<Body>| {
        let shared = shared.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let (code, answer) = shared.lock().unwrap().answer(&head.method, head.uri.path(), &body);
            let body = Body::from(answer.to_string().into_bytes());
            Ok::<_, tower::BoxError>(Response::builder().status(code).body(body)?)
        }
    });
    let client = kube::Client::new(host, "default");
    (Profiles::new(client, "n", "https://host.example:6443".parse().unwrap()), fake)
}

impl Fake {
    fn with(profiles: &[(&str, Value)]) -> Self {
        let profiles = profiles.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Self { profiles: Some(profiles), requests: Vec::new() }
    }

    fn answer(&mut self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        if path.ends_with("kube-root-ca.crt") {
            return (200, json!({"metadata": {"name": "n"}, "data": {"ca.crt": "PEM"}}));
        }
        let rest = path.split_once("/clusterprofiles").unwrap().1.trim_start_matches('/');
        self.requests.push(format!("{method} {rest}").trim_end().to_owned());
        let Some(profiles) = &mut self.profiles else {
            return (404, json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}));
        };
        let (name, subresource) = rest.split_once('/').unwrap_or((rest, ""));
        match *method {
            Method::GET => {
                let items: Vec<_> = profiles.values().cloned().collect();
                (200, json!({"kind": "ClusterProfileList", "metadata": {}, "items": items}))
            }
            Method::DELETE => (200, profiles.remove(name).unwrap()),
            _ => {
                let applied: Value = serde_json::from_slice(body).unwrap();
                let profile = profiles.entry(name.to_owned()).or_insert_with(|| json!({}));
                let fields: &[&str] = match subresource {
                    "status" => &["status"],
                    _ => &["apiVersion", "kind", "metadata", "spec"],
                };
                for field in fields {
                    profile[field] = applied[field].clone();
                }
                (200, profile.clone())
            }
        }
    }
}

fn member(name: &str, last_seen: &str) -> Registered {
    let member: MemberCluster = serde_json::from_value(json!({
        "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster",
        "metadata": {
            "name": name, "uid": "u", "labels": {"env": "prod"}, "creationTimestamp": "2026-11-25T10:00:00Z",
            "annotations": {"fleet.kubectl-mc.dev/uid": "of kube-system"},
        },
        "spec": {},
        "status": {"version": "v1.36.3", "lastSeen": last_seen, "conditions": [{
            "type": "Reachable", "status": "True", "reason": "Answers", "message": "",
            "lastTransitionTime": "2026-11-25T10:00:01Z", "observedGeneration": 3,
        }]},
    }))
    .unwrap();
    Registered {
        member: Arc::new(member),
        origin: Origin::MemberCluster,
        is_read: true,
        in_two: false,
        connection: None,
        manager: None,
        hub_account: None,
        way: Err("none".into()),
    }
}

const SEEN: &str = "2026-11-25T10:00:02Z";

#[tokio::test]
async fn profile_has_the_server_and_health_of_the_member() {
    let (mut profiles, fake) = profiles(Fake::with(&[]));
    profiles.sync([member("m1", SEEN)].iter(), true).await.unwrap();
    let written = fake.lock().unwrap().profiles.as_ref().unwrap()["m1"].clone();
    assert_eq!(
        written,
        json!({
            "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
            "metadata": {
                "name": "m1", "labels": {"env": "prod", "x-k8s.io/cluster-manager": "kubectl-mc"},
                "ownerReferences": [{
                    "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster", "name": "m1", "uid": "u",
                }],
            },
            "spec": {"displayName": "m1", "clusterManager": {"name": "kubectl-mc"}},
            "status": {
                "version": {"kubernetes": "v1.36.3"},
                "conditions": [{
                    "type": "ControlPlaneHealthy", "status": "True", "reason": "Answers", "message": "",
                    "lastTransitionTime": "2026-11-25T10:00:01Z",
                }],
                "accessProviders": [{"name": "kubectl-mc", "cluster": {
                    "server": "https://host.example:6443/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy",
                    "certificate-authority-data": "UEVN",
                }}],
                "properties": [{"name": "cluster.clusterset.k8s.io", "value": "of kube-system"}],
            },
        })
    );
}

#[tokio::test]
async fn only_changed_profiles_are_written() {
    let (mut profiles, fake) = profiles(Fake::with(&[]));
    let requests = || std::mem::take(&mut fake.lock().unwrap().requests);
    profiles.sync([member("m1", SEEN)].iter(), true).await.unwrap();
    assert_eq!(requests(), ["GET", "PATCH m1", "PATCH m1/status"]);
    // A new last-seen time is not a change.
    profiles.sync([member("m1", "2026-11-25T10:05:02Z")].iter(), false).await.unwrap();
    assert_eq!(requests(), [""; 0]);
    profiles.sync([member("m1", SEEN)].iter(), true).await.unwrap();
    assert_eq!(requests(), ["GET"]);
    profiles.sync([member("m1", SEEN), member("m2", SEEN)].iter(), false).await.unwrap();
    assert_eq!(requests(), ["GET", "PATCH m2", "PATCH m2/status"]);
    // Another client has changed the status.
    fake.lock().unwrap().profiles.as_mut().unwrap().get_mut("m1").unwrap()["status"]["version"] = json!({});
    profiles.sync([member("m1", SEEN), member("m2", SEEN)].iter(), true).await.unwrap();
    assert_eq!(requests(), ["GET", "PATCH m1", "PATCH m1/status"]);
    profiles.sync([member("m2", SEEN)].iter(), false).await.unwrap();
    assert_eq!(requests(), ["GET", "DELETE m1"]);
}

#[tokio::test]
async fn label_that_the_member_lost_is_removed() {
    let (mut profiles, fake) = profiles(Fake::with(&[]));
    let requests = || std::mem::take(&mut fake.lock().unwrap().requests);
    profiles.sync([member("m1", SEEN)].iter(), true).await.unwrap();
    requests();
    let labels = json!({"f:env": {}, "f:tier": {}, "f:x-k8s.io/cluster-manager": {}});
    let managed =
        |manager: &str| json!([{"manager": manager, "fieldsV1": {"f:metadata": {"f:labels": labels}}}]);
    for (manager, expected) in [("another", &["GET"][..]), (SIDECAR, &["GET", "PATCH m1", "PATCH m1/status"])]
    {
        fake.lock().unwrap().profiles.as_mut().unwrap().get_mut("m1").unwrap()["metadata"]["managedFields"] =
            managed(manager);
        profiles.sync([member("m1", SEEN)].iter(), true).await.unwrap();
        assert_eq!(requests(), expected, "{manager}");
    }
}

#[tokio::test]
async fn profile_of_another_manager_is_not_changed() {
    let foreign =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"clusterManager": {"name": "another"}}});
    let (mut profiles, fake) = profiles(Fake::with(&[("m1", foreign("m1")), ("m2", foreign("m2"))]));
    profiles.sync([member("m1", SEEN)].iter(), true).await.unwrap();
    assert_eq!(fake.lock().unwrap().requests, ["GET"]);
}

#[tokio::test]
async fn host_without_the_cluster_profile_crd_is_no_error() {
    let (mut profiles, fake) = profiles(Fake::default());
    profiles.sync([member("m1", SEEN)].iter(), true).await.unwrap();
    assert_eq!(fake.lock().unwrap().requests, ["GET"]);
    assert!(profiles.wanted.is_none());
}
