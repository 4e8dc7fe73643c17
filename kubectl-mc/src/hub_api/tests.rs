use std::sync::Arc;

use http::{Request, Response};
use kube::client::Body;
use tokio::sync::watch;

use super::*;
use crate::cluster::connection::Connection;
use crate::cluster::context::{ClusterContext, HostOptions};

/// A host that stores one APIService and one ClusterRoleBinding.
#[derive(Clone)]
struct Host(Arc<watch::Sender<[Value; 2]>>);

impl Host {
    /// The group leads to the Service of this namespace.
    fn leading_to(namespace: &str, replaced: Option<&str>) -> Self {
        let annotations = replaced.map(|namespace| json!({REPLACED: target(namespace).to_text()}));
        let api_service = json!({
            "metadata": {"name": KARMADA, "resourceVersion": "1", "annotations": annotations},
            "spec": target(namespace),
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "mc-sidecar-hub-api"}, "subjects": [{"namespace": namespace}],
        });
        Self(Arc::new(watch::Sender::new([api_service, binding])))
    }

    /// Runs `hub-api apply` for the Service of this namespace, which serves the group or does not.
    async fn apply(&self, namespace: &str, is_served: bool) -> Result<ExitStatus, Failure> {
        let host = self.clone();
        let server = tower::service_fn(move |request: Request<Body>| host.clone().serve(request, is_served));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let kubeconfig = "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n\
                          clusters: [{name: k, cluster: {server: 'https://s'}}]\nusers: [{name: u, user: {}}]\n";
        std::fs::write(&file, kubeconfig).unwrap();
        let options = HostOptions { kubeconfig: Some(file), ..Default::default() };
        let cluster = ClusterContext::load(&options, &Env::default()).unwrap();
        let at = Connection { client: kube::Client::new(server, "default"), cluster };
        let arguments = HubApiApplyArgs {
            group_of: Hub::Karmada,
            service: Some(format!("{namespace}/server")),
            namespace: namespace.to_owned(),
            certificate_authority: None,
            dry_run: false,
            timeout: Duration::ZERO,
        };
        apply(&arguments, &Side { role: "host", at }, &Printer::default()).await
    }

    async fn serve(self, request: Request<Body>, is_served: bool) -> Result<Response<Body>, std::io::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let path = head.uri.path();
        let answer = match ["/apiservices/", "/clusterrolebindings/"]
            .iter()
            .position(|kind| path.contains(kind))
        {
            Some(at) => {
                if head.method == Method::PATCH {
                    let patch = serde_json::from_slice(&body).unwrap();
                    self.0.send_modify(|stored| merge(&mut stored[at], &patch));
                }
                self.0.borrow()[at].clone()
            }
            None => json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"},
            }),
        };
        let mut response = Response::builder();
        if is_served {
            response = response.header("X-Kubectl-Mc-Hop", Hop::KarmadaServer.as_str());
        }
        Ok(response.body(Body::from(answer.to_string().into_bytes())).unwrap())
    }

    /// The namespaces of the Service, of the recorded Service, and of the account with the right.
    fn namespaces(&self) -> [Option<String>; 3] {
        let [api_service, binding] = self.0.borrow().clone();
        let recorded = api_service["metadata"]["annotations"][REPLACED].as_str().and_then(Target::read);
        let recorded = recorded.map(|target| target.patch()["spec"]["service"]["namespace"].clone());
        let text = |value: &Value| value.as_str().map(str::to_owned);
        [
            text(&api_service["spec"]["service"]["namespace"]),
            recorded.as_ref().and_then(text),
            text(&binding["subjects"][0]["namespace"]),
        ]
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
    // The hub has written its APIService since.
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
