use std::sync::Arc;

use http::{Request, Response};
use kube::client::Body;
use tokio::sync::watch;

use super::*;
use crate::cluster::connection::fake;

/// A host that stores one APIService and one ClusterRoleBinding.
#[derive(Clone)]
struct Host(Arc<watch::Sender<Stored>>);

struct Stored {
    objects: [Value; 2],
    /// How another program patches the APIService, just before the first request with this prefix.
    meanwhile: Option<(&'static str, Value)>,
}

impl Host {
    /// The group points to the Service in this namespace. A record contains the original one, and
    /// `first` as that of the sidecar.
    fn leading_to(namespace: &str, replaced: Option<&str>) -> Self {
        let record =
            |namespace| Record { original: target(namespace), sidecar: Some(target("first").service) };
        let annotations = replaced.map(|namespace| json!({REPLACED: record(namespace).to_text()}));
        let api_service = json!({
            "metadata": {"name": KARMADA, "resourceVersion": "1", "annotations": annotations},
            "spec": target(namespace),
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "mc-sidecar-hub-api"}, "subjects": [{"namespace": namespace}],
        });
        Self(Arc::new(watch::Sender::new(Stored { objects: [api_service, binding], meanwhile: None })))
    }

    fn with(self, request: &'static str, patch: Value) -> Self {
        self.0.send_modify(|stored| stored.meanwhile = Some((request, patch)));
        self
    }

    /// Runs `hub-api apply` for the Service in this namespace, which may or may not serve the
    /// group.
    async fn apply(&self, namespace: &str, is_served: bool) -> Result<ExitStatus, Failure> {
        let arguments = HubApiApplyArgs {
            group_of: Hub::Karmada,
            service: Some(format!("{namespace}/server")),
            namespace: namespace.to_owned(),
            certificate_authority: None,
            dry_run: false,
            timeout: Duration::ZERO,
        };
        apply(&arguments, &self.side(is_served), &Printer::default()).await
    }

    /// Runs `hub-api remove`, after which the hub's server answers.
    async fn remove(&self) -> Result<ExitStatus, Failure> {
        let arguments = HubApiRemoveArgs { group_of: Hub::Karmada, dry_run: false, timeout: Duration::ZERO };
        remove(&arguments, &self.side(false), &Printer::default()).await
    }

    fn side(&self, is_served: bool) -> Connection {
        let host = self.clone();
        let server = tower::service_fn(move |request: Request<Body>| host.clone().serve(request, is_served));
        fake::over("host", kube::Client::new(server, "default"))
    }

    async fn serve(self, request: Request<Body>, is_served: bool) -> Result<Response<Body>, std::io::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let (method, path) = (head.method, head.uri.path());
        let mut answer = (200, Value::Null);
        self.0.send_modify(|stored| {
            let is_now = |at: &str| format!("{method} {path}").starts_with(at);
            if let Some((_, patch)) = stored.meanwhile.take_if(|(at, _)| is_now(at)) {
                stored.change(&patch);
            }
            answer = stored.answer(&method, path, &body);
        });
        let mut response = Response::builder().status(answer.0);
        if is_served {
            response = response.header("X-Kubectl-Mc-Hop", Hop::KarmadaServer.as_str());
        }
        Ok(response.body(Body::from(answer.1.to_string().into_bytes())).unwrap())
    }

    /// The namespaces of the Service, of the recorded Service, and of the account with the right.
    fn namespaces(&self) -> [Option<String>; 3] {
        let [api_service, binding] = self.0.borrow().objects.clone();
        let recorded = api_service["metadata"]["annotations"][REPLACED].as_str().and_then(Record::read);
        let recorded = recorded.map(|record| record.original.patch()["spec"]["service"]["namespace"].clone());
        let text = |value: &Value| value.as_str().map(str::to_owned);
        [
            text(&api_service["spec"]["service"]["namespace"]),
            recorded.as_ref().and_then(text),
            text(&binding["subjects"][0]["namespace"]),
        ]
    }
}

impl Stored {
    fn answer(&mut self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        let status = |code: u16| (code, json!({"kind": "Status", "status": "Failure", "code": code}));
        let at = match path {
            path if path.ends_with(KARMADA) => 0,
            path if path.ends_with(API_SERVICE) => return (200, json!({"spec": target("first")})),
            path if path.contains("/clusterrolebindings/") => 1,
            path if path.contains("/clusterroles/") && method == Method::PATCH => {
                return (
                    200,
                    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"}}),
                );
            }
            path if path.starts_with(Origin::Karmada.collection()) => return (200, json!({"items": []})),
            _ => return status(404),
        };
        if *method == Method::PATCH {
            let patch: Value = serde_json::from_slice(body).unwrap();
            let version = &patch["metadata"]["resourceVersion"];
            if !version.is_null() && *version != self.objects[at]["metadata"]["resourceVersion"] {
                return status(409);
            }
            match at {
                0 => self.change(&patch),
                _ => merge(&mut self.objects[at], &patch),
            }
        } else if *method == Method::DELETE {
            self.objects[at] = Value::Null;
            return (200, json!({"kind": "Status", "status": "Success"}));
        }
        if self.objects[at].is_null() { status(404) } else { (200, self.objects[at].clone()) }
    }

    fn change(&mut self, patch: &Value) {
        let version = self.objects[0]["metadata"]["resourceVersion"].as_str().unwrap().len() + 1;
        merge(&mut self.objects[0], patch);
        self.objects[0]["metadata"]["resourceVersion"] = "1".repeat(version).into();
    }
}

fn target(namespace: &str) -> Target {
    Target::given(&format!("{namespace}/server"), None).unwrap()
}

/// Applies a JSON merge patch (RFC 7386).
fn merge(object: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in fields {
        match value {
            Value::Null => drop(object.as_object_mut().unwrap().remove(name)),
            value => merge(&mut object[name], value),
        }
    }
}

fn some(namespaces: [&str; 3]) -> [Option<String>; 3] {
    namespaces.map(|namespace| Some(namespace.to_owned()))
}

#[tokio::test]
async fn second_apply_keeps_the_original_target() {
    let host = Host::leading_to("first", Some("karmada"));
    host.apply("second", true).await.unwrap();
    assert_eq!(host.namespaces(), some(["second", "karmada", "second"]));
    // The hub has written its APIService in the meantime.
    let host = Host::leading_to("karmada", Some("karmada"));
    host.apply("second", true).await.unwrap();
    assert_eq!(host.namespaces(), some(["second", "karmada", "second"]));
}

#[tokio::test]
async fn failed_second_apply_restores_the_first() {
    let host = Host::leading_to("first", Some("karmada"));
    let failure = host.apply("second", false).await.unwrap_err();
    assert!(failure.to_string().contains("so the APIService is as it was"), "{failure}");
    assert_eq!(host.namespaces(), some(["first", "karmada", "first"]));
}

/// The hub's own tooling writes its APIService, with a new CA.
fn rewritten() -> Value {
    let mut patch = target("karmada").patch();
    patch["spec"]["caBundle"] = "bmV3".into();
    patch
}

#[tokio::test]
async fn remove_restores_the_original_target() {
    // Earlier versions did not record the sidecar's Service.
    let early = json!({"metadata": {"annotations": {REPLACED: json!(target("karmada")).to_string()}}});
    for host in [
        Host::leading_to("first", Some("karmada")),
        Host::leading_to("first", Some("karmada")).with("GET ", early),
    ] {
        host.remove().await.unwrap();
        assert_eq!(host.namespaces(), [Some("karmada".to_owned()), None, None]);
    }
}

#[tokio::test]
async fn remove_keeps_a_service_rewritten_by_the_hub() {
    for host in [
        Host::leading_to("first", Some("karmada")).with("GET ", rewritten()),
        // This happens between the read and the write.
        Host::leading_to("first", Some("karmada")).with("PATCH ", rewritten()),
    ] {
        host.remove().await.unwrap();
        assert_eq!(host.namespaces(), [Some("karmada".to_owned()), None, None]);
        assert_eq!(host.0.borrow().objects[0]["spec"]["caBundle"], "bmV3");
    }
}

#[tokio::test]
async fn apiservice_of_a_third_server_is_not_put_back() {
    let host = Host::leading_to("third", Some("karmada"));
    let failure = host.remove().await.unwrap_err();
    let error =
        "nothing was changed: APIService v1alpha1.cluster.karmada.io leads to Service third/server now";
    assert!(failure.to_string().contains(error), "{failure}");
    assert_eq!(host.namespaces(), some(["third", "karmada", "third"]));
    // An uninstall removes the right of its sidecar.
    put_all_back(&host.side(false), false, &Printer::default()).await.unwrap();
    let [service, recorded, _] = some(["third", "karmada", ""]);
    assert_eq!(host.namespaces(), [service, recorded, None]);
}

#[tokio::test]
async fn failed_apply_leaves_a_service_written_meanwhile() {
    const WAITING: &str = "GET /apis/cluster.karmada.io/";
    let host = Host::leading_to("karmada", None).with(WAITING, target("third").patch());
    let failure = host.apply("second", false).await.unwrap_err();
    assert!(failure.to_string().contains("leads to Service third/server now"), "{failure}");
    let host = Host::leading_to("first", Some("karmada")).with(WAITING, target("third").patch());
    host.apply("second", false).await.unwrap_err();
    assert_eq!(host.namespaces(), some(["third", "karmada", "second"]));
}
