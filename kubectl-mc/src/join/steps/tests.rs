use std::sync::mpsc::{Receiver, Sender, channel};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request, Response};
use kube::client::Body;
use kubectl_mc_api::names::{IMPERSONATOR, NAMESPACE};

use super::*;
use crate::cluster::connection::Connection;
use crate::cluster::context::{ClusterContext, HostOptions};
use crate::env::Env;
use crate::join::proxy_tls::ProxyTls;

/// A side whose server answers by this function, and the bodies of the patches with their paths.
fn side(
    role: &'static str,
    answer: impl Fn(&Method, &str) -> (u16, Value) + Clone + Send + 'static,
) -> (Side, Receiver<(String, Value)>) {
    let (sender, patches) = channel();
    let server =
        tower::service_fn(move |request: Request<Body>| serve(request, answer.clone(), sender.clone()));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let kubeconfig = "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n\
                      clusters: [{name: k, cluster: {server: 'https://s'}}]\nusers: [{name: u, user: {}}]\n";
    std::fs::write(&file, kubeconfig).unwrap();
    let options = HostOptions { kubeconfig: Some(file), ..Default::default() };
    let cluster = ClusterContext::load(&options, &Env::default()).unwrap();
    let at = Connection { client: kube::Client::new(server, "default"), cluster };
    (Side { role, at }, patches)
}

async fn serve(
    request: Request<Body>,
    answer: impl Fn(&Method, &str) -> (u16, Value),
    sender: Sender<(String, Value)>,
) -> Result<Response<Body>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect_bytes().await.unwrap();
    if head.method == Method::PATCH {
        let _ = sender.send((head.uri.path().to_owned(), serde_json::from_slice(&body).unwrap()));
    }
    let (code, body) = answer(&head.method, head.uri.path());
    Ok(Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap())
}

fn host(_: &Method, path: &str) -> (u16, Value) {
    let (kind, version) = match path.contains("/secrets/") {
        true => ("Secret", "v1"),
        false => ("MemberCluster", "fleet.kubectl-mc.dev/v1alpha1"),
    };
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let object = json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": "m1", "resourceVersion": "1"},
        "status": {"conditions": ready}, "data": {"server": STANDARD.encode("https://old"), "token": "b2xk"},
    });
    (200, object)
}

#[tokio::test]
async fn failed_change_of_a_connection_is_undone() {
    let (host, patches) = side("host", host);
    let (member, _) = side("member", |_, path| match path.contains(IMPERSONATOR) {
        true => (403, json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"})),
        false => (201, json!({"status": {"token": "new"}})),
    });
    let endpoint = Endpoint {
        server: "https://new".to_owned(),
        ca: None,
        tls_server_name: None,
        insecure: false,
        proxy_url: None,
        proxy_tls: ProxyTls::default(),
        via_agent: false,
        is_given: true,
    };
    let name: ClusterName = "m1".parse().unwrap();
    let steps = Steps {
        name: &name,
        host: &host,
        member: &member,
        endpoint: &endpoint,
        agent: None,
        removes_agent: false,
        namespace: NAMESPACE,
        registration: objects::member_cluster(&name, &[], None),
        member_objects: Vec::new(),
        bindable_roles: None,
        surplus: Vec::new(),
        token_life: Duration::from_secs(3600),
        timeout: Duration::from_secs(1),
        printer: &Printer::default(),
    };
    let error = steps.run().await.err().unwrap();
    assert!(matches!(error, StepError::Undone(_)), "{error}");
    let servers: Vec<_> = patches.try_iter().filter(|(path, _)| path.contains("/secrets/")).collect();
    let servers = servers.iter().map(|(path, patch)| {
        let server = STANDARD.decode(patch["data"]["server"].as_str().unwrap()).unwrap();
        (path.rsplit('/').next().unwrap(), String::from_utf8(server).unwrap())
    });
    let expected =
        [("m1.manager", "https://new"), ("m1.manager", "https://old"), ("m1.member", "https://old")];
    assert!(servers.eq(expected.map(|(secret, server)| (secret, server.to_owned()))));
}
