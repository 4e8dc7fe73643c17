//! A connection to a fake server, for tests.

use std::sync::mpsc::{Receiver, Sender, channel};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::Value;

use super::Connection;
use crate::cluster::context::{ClusterContext, HostOptions};
use crate::env::Env;

/// A request: its method, its path and its body.
pub(crate) type Sent = (Method, String, Value);

/// A side whose server answers with this function, and the requests that it received.
pub(crate) fn connection(
    role: &'static str,
    answer: impl Fn(&Method, &str) -> (u16, Value) + Clone + Send + 'static,
) -> (Connection, Receiver<Sent>) {
    let (sender, requests) = channel();
    let server =
        tower::service_fn(move |request: Request<Body>| serve(request, answer.clone(), sender.clone()));
    (over(role, kube::Client::new(server, "default")), requests)
}

/// A connection by this client.
pub(crate) fn over(role: &'static str, client: kube::Client) -> Connection {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let kubeconfig = "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n\
                      clusters: [{name: k, cluster: {server: 'https://s'}}]\nusers: [{name: u, user: {}}]\n";
    std::fs::write(&file, kubeconfig).unwrap();
    let options = HostOptions { kubeconfig: Some(file), ..Default::default() };
    let cluster = ClusterContext::load(&options, &Env::default()).unwrap();
    Connection { role, client, cluster }
}

async fn serve(
    request: Request<Body>,
    answer: impl Fn(&Method, &str) -> (u16, Value),
    sender: Sender<Sent>,
) -> Result<Response<Body>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap_or_default();
    let (code, answered) = answer(&head.method, head.uri.path());
    let _ = sender.send((head.method, head.uri.path().to_owned(), body));
    Ok(Response::builder().status(code).body(Body::from(answered.to_string().into_bytes())).unwrap())
}
