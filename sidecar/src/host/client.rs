//! The client of the host's API. Like client-go, it accepts only a 2xx as an answer; kube alone would also
//! parse the body of a redirect.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use http::Response;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt;
use kube::client::retry::RetryPolicy;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tower::retry::RetryLayer;
use tower::timeout::TimeoutLayer;
use tower::util::AndThenLayer;
use tower::{BoxError, ServiceBuilder};

use crate::base::tcp;

/// A client of the host in this kubeconfig, or of the pod's cluster with the pod's account.
pub async fn new(kubeconfig: Option<&Path>) -> anyhow::Result<kube::Client> {
    let config = match kubeconfig {
        Some(path) => {
            let kubeconfig =
                Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("cannot use {}", path.display()))?
        }
        None => kube::Config::incluster().context("no --kubeconfig, and not in a pod")?,
    };
    over_tcp(config).context("the host cannot be reached with this kubeconfig")
}

/// Like kube's own client, but it detects a host that has silently disappeared, and no request
/// waits for an endless head. kube's client has no proxies unless its features for them are
/// enabled.
fn over_tcp(config: kube::Config) -> kube::Result<kube::Client> {
    if config.proxy_url.is_some() {
        return kube::Client::try_from(config);
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(config.connect_timeout);
    tcp::prepare_all(&mut tcp);
    let https = config.rustls_https_connector_with_connector(tcp)?;
    let retries = config.default_retry.then_some(RetryLayer::new(RetryPolicy::server_retry()));
    let service = ServiceBuilder::new()
        .layer(AndThenLayer::new(refuse_redirect))
        .layer(config.base_uri_layer())
        .option_layer(retries)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .layer(TimeoutLayer::new(HEAD_TIMEOUT))
        .service(Client::builder(TokioExecutor::new()).build(https));
    Ok(kube::Client::new(service, config.default_namespace))
}

/// As long as a kube-apiserver works on a request (`--request-timeout`). A watch is answered at once.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Accepts 2xx and error statuses; a kube-apiserver never redirects the sidecar's requests.
///
/// # Errors
/// If the answer is a redirect.
pub async fn refuse_redirect<B>(response: Response<B>) -> Result<Response<B>, BoxError> {
    match response.status() {
        status if status.is_redirection() => {
            Err(format!("the host answered with a redirect: {status}").into())
        }
        _ => Ok(response),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use k8s_openapi::api::authentication::v1::TokenReview;
    use kube::Api;
    use kube::client::Body;
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    use super::*;
    use crate::base::retry;

    /// A host that accepts one connection and a request on it, and the request.
    async fn silent_host() -> (TcpStream, JoinHandle<bool>) {
        crate::connection::tls::install_provider();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = over_tcp(kube::Config::new(format!("http://{address}").parse().unwrap())).unwrap();
        let asked = tokio::spawn(async move { client.apiserver_version().await.is_ok() });
        let (mut host, _) = listener.accept().await.unwrap();
        host.read_u8().await.unwrap();
        (host, asked)
    }

    /// The kernel's table shows the timer of each connection: 2 is the keepalive timer
    /// (proc_pid_net(5)).
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn connection_to_the_host_detects_a_dead_host() {
        let (host, _asked) = silent_host().await;
        let port = format!(":{:04X}", host.peer_addr().unwrap().port());
        let is_kept_alive = || {
            let connections = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
            connections.lines().any(|line| {
                let fields: Vec<_> = line.split_whitespace().collect();
                fields[1].ends_with(&port) && fields[5].starts_with("02:")
            })
        };
        let waiting = async {
            while !is_kept_alive() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap();
    }

    #[tokio::test]
    async fn head_of_an_answer_is_not_waited_for_without_end() {
        let (_host, asked) = silent_host().await;
        tokio::time::pause();
        assert!(!tokio::time::timeout(10 * HEAD_TIMEOUT, asked).await.unwrap().unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn body_of_a_redirect_is_not_parsed_as_a_review() {
        for (status, is_answer) in [(200, true), (201, true), (301, false), (304, false), (308, false)] {
            let service = tower::service_fn(move |_: Request<Body>| async move {
                let review = br#"{"metadata":{},"spec":{},"status":{"authenticated":true}}"#.to_vec();
                refuse_redirect(Response::builder().status(status).body(Body::from(review))?).await
            });
            let reviews: Api<TokenReview> = Api::all(kube::Client::new(service, "default"));
            assert_eq!(retry::review(&reviews, &TokenReview::default()).await.is_ok(), is_answer, "{status}");
        }
    }
}
