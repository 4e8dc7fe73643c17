//! Opens a port-forward to a running pod over WebSocket and over SPDY, as kubectl does, and closes
//! it without sending data. This shows whether a hop refuses the upgrades that exec, attach, cp and
//! port-forward need.

use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use kube::client::Body;
use kubectl_mc_api::ClusterName;
use serde_json::Value;
use tokio::time::timeout;

use super::member;
use super::report::Finding;
use super::requests::send;
use crate::cluster::client::{self, ClientError, Reply};
use crate::cluster::context::ClusterContext;
use crate::cluster::fields::items;
use crate::cluster::hop::Hop;

/// The protocol of a connection to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// SPDY inside a WebSocket (KEP-4006).
    WebSocket,
    Spdy,
}

/// Why no connection was established.
#[derive(Debug)]
enum Failure {
    /// The caller lacks a right, so the route was not tested.
    NotAllowed(String),
    Refused(String),
}

/// The cluster of the pod.
pub(super) struct Target {
    /// The path of its API.
    pub(super) root: String,
    pub(super) namespace: Option<String>,
    /// The command that shows why no stream opens.
    pub(super) explain: String,
}

impl Target {
    /// A member behind the host.
    pub(super) fn member(host: &ClusterContext, cluster: &ClusterName) -> Self {
        let explain = member::explain(host, cluster, "port-forward pods");
        Self { root: host.hub.root(cluster), namespace: host.namespace.clone(), explain }
    }
}

pub(super) async fn check(target: &Target, client: &kube::Client, member_minor: Option<u32>) -> Finding {
    let pod = match running_pod(client, &target.root, target.namespace.as_deref()).await {
        Ok(Some(pod)) => pod,
        Ok(None) => return Finding::skipped(CHECK, "streams not tried: no pod that you may list runs there"),
        Err(error) => return Finding::skipped(CHECK, format!("streams not tried: {}", error.reason())),
    };
    let web_socket = open(client, &pod, Protocol::WebSocket).await;
    let spdy = open(client, &pod, Protocol::Spdy).await;
    let is_served = member_minor.is_none_or(|minor| minor >= FIRST_WITH_WEB_SOCKET);
    match judge(web_socket, spdy, is_served) {
        Verdict::Works(what) => Finding::ok(CHECK, what),
        Verdict::NotTried(why) => Finding::skipped(CHECK, format!("streams not tried: {why}")),
        Verdict::OnlyOne(what) => Finding::warning(
            CHECK,
            what,
            "let WebSocket and SPDY upgrades pass each proxy and load balancer before the host and the member",
        ),
        Verdict::Refused(why) => Finding::problem(
            CHECK,
            format!("no stream to pod {}: {why}", pod.name),
            Some(target.explain.clone()),
        ),
    }
}

/// The combined result of both protocols.
#[derive(Debug, PartialEq)]
enum Verdict {
    Works(&'static str),
    NotTried(String),
    /// kubectl falls back to the other protocol.
    OnlyOne(String),
    Refused(String),
}

fn judge(web_socket: Result<(), Failure>, spdy: Result<(), Failure>, web_socket_is_served: bool) -> Verdict {
    match (web_socket, spdy) {
        (Ok(()), Ok(())) => Verdict::Works("WebSocket and SPDY streams"),
        (Err(_), Ok(())) if !web_socket_is_served => {
            Verdict::Works("SPDY streams; port-forward by WebSocket needs Kubernetes 1.31")
        }
        (Err(Failure::NotAllowed(why)), _) | (_, Err(Failure::NotAllowed(why))) => Verdict::NotTried(why),
        (Err(Failure::Refused(why)), Ok(())) => {
            Verdict::OnlyOne(format!("SPDY streams, and no WebSocket: {why}"))
        }
        (Ok(()), Err(Failure::Refused(why))) => {
            Verdict::OnlyOne(format!("WebSocket streams, and no SPDY: {why}"))
        }
        (Err(Failure::Refused(web_socket)), Err(Failure::Refused(spdy))) => {
            Verdict::Refused(format!("WebSocket: {web_socket}; SPDY: {spdy}"))
        }
    }
}

/// A pod to forward to.
struct Pod {
    name: String,
    /// The path of its port-forward through the host.
    path: String,
}

/// A pod in any namespace, or in the context's namespace if the caller may not list all.
async fn running_pod(
    client: &kube::Client,
    root: &str,
    namespace: Option<&str>,
) -> Result<Option<Pod>, ClientError> {
    let namespaced = format!("/api/v1/namespaces/{}/pods", namespace.unwrap_or("default"));
    for pods in ["/api/v1/pods", &namespaced] {
        let path = format!("{root}{pods}?fieldSelector=status.phase%3DRunning&limit=10");
        let reply = send(client, Method::GET, &path, None).await?;
        if let Some(pod) =
            reply.status.is_success().then(|| reply.json()).as_ref().and_then(|list| first(list, root))
        {
            return Ok(Some(pod));
        }
    }
    Ok(None)
}

/// The first pod whose name and namespace are valid in a path, because a member may send anything.
fn first(list: &Value, root: &str) -> Option<Pod> {
    let is_name = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
            && !text.starts_with('.')
    };
    items(list).find_map(|pod| {
        let field = |name: &str| pod["metadata"][name].as_str().filter(|text| is_name(text));
        let (name, namespace) = (field("name")?, field("namespace")?);
        let path = format!("{root}/api/v1/namespaces/{namespace}/pods/{name}/portforward");
        Some(Pod { name: format!("{namespace}/{name}"), path })
    })
}

async fn open(client: &kube::Client, pod: &Pod, protocol: Protocol) -> Result<(), Failure> {
    let request = request(&pod.path, protocol).map_err(|error| Failure::Refused(error.to_string()))?;
    // The connection is dropped with the response; the body of a refusal is read.
    let sent = timeout(TIMEOUT, client.send(request)).await;
    let sent = sent.map_err(|_| Failure::Refused(format!("no answer within {} s", TIMEOUT.as_secs())))?;
    let answer = sent.map_err(|error| Failure::Refused(client::failed(error).reason()))?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(());
    }
    let (head, _) = answer.into_parts();
    Err(refused(&Reply::new(&head, bytes::Bytes::new())))
}

fn refused(reply: &Reply) -> Failure {
    let status = reply.status;
    match reply.refusal() {
        Some(refusal) if refusal.hop == Hop::HostAuthorization => {
            Failure::NotAllowed("you may not create clusters/proxy on the host".to_owned())
        }
        Some(refusal) => Failure::Refused(format!("{}: {status}", refusal.hop)),
        None if status == StatusCode::FORBIDDEN => {
            Failure::NotAllowed("you may not create pods/portforward on the cluster".to_owned())
        }
        None => Failure::Refused(format!("member: {status}")),
    }
}

fn request(path: &str, protocol: Protocol) -> Result<Request<Body>, http::Error> {
    let request = Request::builder().uri(path).header(header::CONNECTION, "Upgrade");
    match protocol {
        // 16 bytes (RFC 6455, 4.1). They need not be random, because TLS has authenticated the server.
        Protocol::WebSocket => request
            .method(Method::GET)
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, "a3ViZWN0bC1tYyBjaGVjaw==")
            .header(header::SEC_WEBSOCKET_PROTOCOL, "SPDY/3.1+portforward.k8s.io"),
        Protocol::Spdy => request
            .method(Method::POST)
            .header(header::UPGRADE, "SPDY/3.1")
            .header("X-Stream-Protocol-Version", "portforward.k8s.io"),
    }
    .body(Body::empty())
}

const CHECK: &str = "streams";
/// The first minor version that serves port-forward over WebSocket without a feature gate.
const FIRST_WITH_WEB_SOCKET: u32 = 31;
/// A kubelet responds immediately, but a hop that drops upgrades never does.
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_stream_protocol_is_a_warning_and_none_a_problem() {
        let refused = || Err(Failure::Refused("502".to_owned()));
        let not_allowed = || Err(Failure::NotAllowed("no right".to_owned()));
        assert_eq!(judge(Ok(()), Ok(()), true), Verdict::Works("WebSocket and SPDY streams"));
        assert!(matches!(judge(refused(), Ok(()), true), Verdict::OnlyOne(_)));
        assert!(matches!(judge(Ok(()), refused(), true), Verdict::OnlyOne(_)));
        assert!(matches!(judge(refused(), Ok(()), false), Verdict::Works(_)));
        assert!(matches!(judge(refused(), refused(), false), Verdict::Refused(_)));
        assert_eq!(judge(not_allowed(), not_allowed(), true), Verdict::NotTried("no right".to_owned()));
        assert_eq!(judge(refused(), not_allowed(), true), Verdict::NotTried("no right".to_owned()));
    }

    #[test]
    fn forged_pod_name_cannot_change_the_path() {
        let list = |name: &str, namespace: &str| json!({"items": [{"metadata": {"name": name, "namespace": namespace}}]});
        let path = |name: &str, namespace: &str| first(&list(name, namespace), "/m1").map(|pod| pod.path);
        assert_eq!(
            path("web-0", "shop").as_deref(),
            Some("/m1/api/v1/namespaces/shop/pods/web-0/portforward")
        );
        for (name, namespace) in [
            ("../../x", "shop"),
            ("web", ".."),
            ("web?x=1", "shop"),
            ("", "shop"),
            ("web", "a/b"),
            ("a\r\nb", "x"),
        ] {
            assert_eq!(path(name, namespace), None, "{name:?} {namespace:?}");
        }
        assert!(first(&json!({"items": "none"}), "/m1").is_none());
    }
}
