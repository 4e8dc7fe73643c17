use std::sync::Mutex;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use tokio::time::advance;

use super::*;
use crate::observe::readiness::{Part, Readiness};

/// A host with the Secret and optionally the APIService. It refuses writes for another version.
#[derive(Default)]
struct Host {
    secret: Value,
    registration: Option<Value>,
    of_hub: Option<Value>,
    writes: usize,
}

impl Host {
    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        let secret = path.ends_with("/secrets/mc-sidecar-ca");
        let object = match () {
            () if secret => Some(&mut self.secret),
            () if path.ends_with(API_SERVICE) => self.registration.as_mut(),
            () => self.of_hub.as_mut(),
        };
        let Some(object) = object else { return status(404, "NotFound") };
        if method == Method::GET {
            return (200, object.clone());
        }
        if body["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
            return status(409, "Conflict");
        }
        self.writes += 1;
        if secret {
            object["data"] = body["data"].clone();
        } else {
            object["spec"]["caBundle"] = body["spec"]["caBundle"].clone();
        }
        object["metadata"]["resourceVersion"] = self.writes.to_string().into();
        (200, object.clone())
    }
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "status": "Failure", "reason": reason, "code": code, "message": reason}))
}

fn client(host: &Arc<Mutex<Host>>) -> kube::Client {
    let host = host.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let host = host.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
            // Lets other replicas write between this one's read and its write.
            tokio::task::yield_now().await;
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (code, value) = host.lock().unwrap().answer(&head.method, head.uri.path(), &body);
            let response = Response::builder().status(code).body(Body::from(value.to_string().into_bytes()));
            response.map_err(std::io::Error::other)
        }
    });
    kube::Client::new(service, "default")
}

fn host() -> Arc<Mutex<Host>> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "mc-sidecar-ca", "namespace": "n", "resourceVersion": "0"},
    });
    Arc::new(Mutex::new(Host { secret, ..Host::default() }))
}

fn service(name: &str) -> Value {
    json!({"namespace": "kubectl-mc-system", "name": name, "port": 443})
}

fn register(host: &Arc<Mutex<Host>>) {
    let registration = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": API_SERVICE, "resourceVersion": "0"},
        "spec": {"groupPriorityMinimum": 100, "versionPriority": 10, "service": service("mc-sidecar")},
    });
    host.lock().unwrap().registration = Some(registration);
}

fn replica(host: &Arc<Mutex<Host>>, readiness: &Readiness) -> SelfManaged {
    crate::connection::tls::install_provider();
    let shown = ServingCertificate::self_signed(vec!["localhost".to_owned()]).unwrap();
    SelfManaged::new(
        client(host),
        "n",
        None,
        Arc::new(shown),
        Arc::default(),
        readiness.pending(Part::ServingCertificate),
    )
}

/// Steps until everything is up to date.
async fn settle(replica: &mut SelfManaged) {
    for _ in 0..5 {
        if replica.step(OffsetDateTime::now_utc()).await.unwrap() {
            return;
        }
    }
    panic!("it does not settle");
}

fn signer(replica: &SelfManaged) -> Vec<u8> {
    replica.leaf.as_ref().unwrap().signer.to_vec()
}

fn bundle(host: &Arc<Mutex<Host>>) -> Value {
    host.lock().unwrap().registration.as_ref().unwrap()["spec"]["caBundle"].clone()
}

#[tokio::test(start_paused = true)]
async fn concurrent_replicas_agree_on_one_authority() {
    let (host, readiness) = (host(), Readiness::default());
    register(&host);
    let (mut one, mut other) = (replica(&host, &readiness), replica(&host, &readiness));
    assert!(!readiness.is_ready());
    tokio::join!(settle(&mut one), settle(&mut other));
    assert_eq!(signer(&one), signer(&other));
    assert!(readiness.is_ready());
    assert_eq!(host.lock().unwrap().writes, 2, "the Secret once and the bundle once");
    assert_eq!(bundle(&host), host.lock().unwrap().secret["data"]["ca.crt"]);
}

#[tokio::test(start_paused = true)]
async fn hub_api_service_gets_the_same_bundle() {
    let (host, readiness) = (host(), Readiness::default());
    register(&host);
    let mut replica = replica(&host, &readiness).also_for(Some(Origin::KubeAdmiral));
    settle(&mut replica).await;
    assert!(host.lock().unwrap().of_hub.is_none(), "it is not registered");
    let registration = |service: Value| {
        json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1alpha1.aggregated.kubeadmiral.io", "resourceVersion": "0"},
            "spec": {"groupPriorityMinimum": 100, "versionPriority": 10, "service": service},
        })
    };
    host.lock().unwrap().of_hub = Some(registration(service("another")));
    settle(&mut replica).await;
    let of_hub = host.lock().unwrap().of_hub.clone().unwrap();
    assert_eq!(of_hub["spec"]["caBundle"], Value::Null, "it leads to another server");
    host.lock().unwrap().of_hub = Some(registration(service("mc-sidecar")));
    settle(&mut replica).await;
    let of_hub = host.lock().unwrap().of_hub.clone().unwrap();
    assert_eq!(of_hub["spec"]["caBundle"], bundle(&host));
}

#[tokio::test(start_paused = true)]
async fn replica_is_ready_before_its_group_is_registered() {
    let (host, readiness) = (host(), Readiness::default());
    let mut replica = replica(&host, &readiness);
    for _ in 0..3 {
        assert!(!replica.step(OffsetDateTime::now_utc()).await.unwrap());
    }
    assert!(readiness.is_ready());
    register(&host);
    settle(&mut replica).await;
    assert!(!bundle(&host).is_null());
}

#[tokio::test(start_paused = true)]
async fn new_signer_waits_until_the_host_trusts_it() {
    let (host, readiness) = (host(), Readiness::default());
    register(&host);
    let mut replica = replica(&host, &readiness);
    settle(&mut replica).await;
    let first = signer(&replica);
    host.lock().unwrap().secret["data"].as_object_mut().unwrap().remove("tls.key");
    // The Secret, the bundle, and then steps without changes.
    for _ in 0..4 {
        assert!(!replica.step(OffsetDateTime::now_utc()).await.unwrap());
        assert_eq!(signer(&replica), first);
    }
    advance(SETTLE - Duration::from_secs(1)).await;
    assert!(!replica.step(OffsetDateTime::now_utc()).await.unwrap());
    assert_eq!(signer(&replica), first);
    advance(Duration::from_secs(1)).await;
    settle(&mut replica).await;
    assert_ne!(signer(&replica), first);
}

#[tokio::test(start_paused = true)]
async fn changed_bundle_is_restored() {
    let (host, readiness) = (host(), Readiness::default());
    register(&host);
    let mut replica = replica(&host, &readiness);
    settle(&mut replica).await;
    let right = bundle(&host);
    host.lock().unwrap().registration.as_mut().unwrap()["spec"]["caBundle"] = Value::Null;
    settle(&mut replica).await;
    assert_eq!(bundle(&host), right);
}

#[tokio::test(start_paused = true)]
async fn leaf_is_renewed_before_it_expires() {
    let (host, readiness) = (host(), Readiness::default());
    register(&host);
    let mut replica = replica(&host, &readiness);
    settle(&mut replica).await;
    let leaf = |replica: &SelfManaged| replica.leaf.as_ref().unwrap().chain[0].to_vec();
    let first = leaf(&replica);
    let now = OffsetDateTime::now_utc();
    assert!(replica.step(now + Duration::from_secs(19 * 24 * 3600)).await.unwrap());
    assert_eq!(leaf(&replica), first);
    assert!(replica.step(now + Duration::from_secs(21 * 24 * 3600)).await.unwrap());
    assert_ne!(leaf(&replica), first);
}

#[test]
fn certificate_names_include_the_direct_server() {
    let server = |url: &str| url.parse().unwrap();
    assert_eq!(
        names("n", None),
        ["mc-sidecar.n.svc", "mc-sidecar.n.svc.cluster.local", "localhost", "mc-sidecar-authorization.n.svc"]
    );
    assert_eq!(names("n", Some(&server("https://mc.example:8443"))).last().unwrap(), "mc.example");
    assert_eq!(names("n", Some(&server("https://[2001:db8::7]"))).last().unwrap(), "2001:db8::7");
}

#[tokio::test(start_paused = true)]
async fn agents_get_a_new_signer_before_it_is_used() {
    let (host, readiness) = (host(), Readiness::default());
    register(&host);
    let (sender, endpoint) = watch::channel(None);
    let mut replica = replica(&host, &readiness);
    replica.endpoint = Some(("https://mc.example".parse().unwrap(), sender));
    settle(&mut replica).await;
    let first = endpoint.borrow().clone().unwrap();
    let shown = replica.leaf.as_ref().unwrap().signer.clone();
    host.lock().unwrap().secret["data"]["tls.key"] = Value::Null;
    // The first step writes the Secret, the second reads it.
    for _ in 0..2 {
        replica.step(OffsetDateTime::now_utc()).await.unwrap();
    }
    assert!(endpoint.borrow().clone().unwrap().authority.len() > first.authority.len(), "both signers");
    assert!(replica.leaf.as_ref().unwrap().signer == shown, "the new signer is shown already");
}
