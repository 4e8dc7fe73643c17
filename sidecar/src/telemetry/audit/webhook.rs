//! Sends events to a server over HTTPS, as lists (apiserver: `plugin/pkg/audit/webhook`). The kubeconfig
//! contains the server and the sidecar's credential for it. A refused list is sent again after
//! growing pauses, and is lost after the fifth attempt.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{Request, header};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::error;

use super::backend::{Backend, Mode};
use super::event::{API_VERSION, Format};
use super::queue::{Pace, Queue};
use crate::base::random;

/// Sends events to a server.
#[derive(Clone, Debug)]
pub struct WebhookConfig {
    pub kubeconfig: PathBuf,
    pub mode: Mode,
    pub buffer_size: usize,
    pub batch: Batch,
}

/// How events are batched.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    pub max_size: usize,
    /// How long a list waits for more events, in mode `batch`.
    pub max_wait: Duration,
    pub initial_backoff: Duration,
}

/// A server that receives events.
#[derive(Clone)]
struct Webhook {
    client: kube::Client,
    path: Arc<str>,
    initial_backoff: Duration,
    errors: Counter,
}

pub(super) async fn start(config: WebhookConfig, errors: Counter) -> anyhow::Result<Backend> {
    let WebhookConfig { kubeconfig, mode, buffer_size, batch } = config;
    let (client, path) = connect(&kubeconfig).await?;
    let max_wait = if mode == Mode::Batch { batch.max_wait } else { Duration::ZERO };
    let pace = Pace { max_size: batch.max_size.max(1), max_wait };
    let (backend, queue) = Backend::new(mode, Format::Json, buffer_size, pace, errors.clone());
    let webhook = Webhook { client, path, initial_backoff: batch.initial_backoff, errors };
    tokio::spawn(webhook.run(queue));
    Ok(backend)
}

async fn connect(file: &Path) -> anyhow::Result<(kube::Client, Arc<str>)> {
    let kubeconfig = Kubeconfig::read_from(file).context("cannot read the kubeconfig")?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.connect_timeout = Some(TIMEOUT);
    config.read_timeout = Some(TIMEOUT);
    let path = config.cluster_url.path_and_query().map_or("/", |path| path.as_str()).into();
    let mut server = config.cluster_url.into_parts();
    server.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    config.cluster_url = http::Uri::from_parts(server)?;
    Ok((kube::Client::try_from(config)?, path))
}

impl Webhook {
    async fn run(self, queue: Arc<Queue>) {
        let under_way = Arc::new(Semaphore::new(UNDER_WAY));
        loop {
            let batch = queue.take().await;
            if batch.is_flush() {
                // Waits for all earlier lists.
                let all = under_way.acquire_many(u32::try_from(UNDER_WAY).unwrap_or(u32::MAX)).await;
                let is_stored = self.send(&batch.events).await;
                batch.ended(is_stored);
                drop(all);
                continue;
            }
            let Ok(permit) = under_way.clone().acquire_owned().await else { return };
            let webhook = self.clone();
            tokio::spawn(async move {
                let is_stored = webhook.send(&batch.events).await;
                batch.ended(is_stored);
                drop(permit);
            });
        }
    }

    /// Sends a list until it is accepted.
    async fn send(&self, events: &[Bytes]) -> bool {
        if events.is_empty() {
            return true;
        }
        let list = list(events);
        let mut backoff = self.initial_backoff;
        for attempt in 1..=ATTEMPTS {
            let Err(error) = self.post(list.clone()).await else { return true };
            if attempt == ATTEMPTS {
                error!(events = events.len(), error = %format_args!("{error:#}"), "audit webhook failed: events lost");
                break;
            }
            sleep(backoff.mul_f64(1.0 + random::fraction() / 5.0)).await;
            backoff = backoff.mul_f64(1.5);
        }
        self.errors.inc_by(events.len() as u64);
        false
    }

    async fn post(&self, list: Bytes) -> anyhow::Result<()> {
        let request = Request::post(&*self.path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(list))?;
        let response = timeout(TIMEOUT, self.client.send(request)).await.context("no answer in time")??;
        anyhow::ensure!(response.status().is_success(), "the server answers {}", response.status());
        Ok(())
    }
}

/// `audit.k8s.io/v1 EventList`
fn list(events: &[Bytes]) -> Bytes {
    let mut list = format!(r#"{{"kind":"EventList","apiVersion":"{API_VERSION}","metadata":{{}},"items":["#)
        .into_bytes();
    for (at, event) in events.iter().enumerate() {
        if at > 0 {
            list.push(b',');
        }
        list.extend_from_slice(event);
    }
    list.extend_from_slice(b"]}");
    list.into()
}

/// Lists in flight at once.
const UNDER_WAY: usize = 8;
const ATTEMPTS: u32 = 5;
/// Timeout of one attempt.
const TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};

    use http::{Response, StatusCode};
    use http_body_util::{BodyExt, Full};
    use hyper::body::Incoming;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use serde_json::Value;
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::super::event::Rendered;
    use super::super::queue::Share;
    use super::*;

    /// A server that fails this many times before it accepts, and a backend that sends to it.
    async fn backend(
        failures: u32,
        mode: Mode,
        batch: Batch,
    ) -> (Backend, mpsc::UnboundedReceiver<(String, Value)>, Counter) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, lists) = mpsc::unbounded_channel();
        let left = Arc::new(AtomicU32::new(failures));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (sender, left) = (sender.clone(), left.clone());
                let answer = service_fn(move |request: Request<Incoming>| {
                    let (sender, left) = (sender.clone(), left.clone());
                    async move {
                        let path = request.uri().to_string();
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let mut response = Response::new(Full::new(Bytes::new()));
                        let fails =
                            left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
                        match fails {
                            Ok(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
                            Err(_) => sender.send((path, serde_json::from_slice(&body).unwrap())).unwrap(),
                        }
                        Ok::<_, Infallible>(response)
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let text = format!(
            "clusters: [{{name: a, cluster: {{server: 'http://{address}/audit?x=y'}}}}]\n\
             users: [{{name: a, user: {{}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\ncurrent-context: a\n"
        );
        std::fs::write(&kubeconfig, text).unwrap();
        let errors = Counter::default();
        let config = WebhookConfig { kubeconfig, mode, buffer_size: 100, batch };
        (start(config, errors.clone()).await.unwrap(), lists, errors)
    }

    fn event(id: &str) -> Rendered {
        Rendered { json: format!(r#"{{"auditID":"{id}"}}"#).into(), legacy: None }
    }

    fn ids(list: &Value) -> Vec<&str> {
        assert_eq!(list["kind"], "EventList");
        list["items"].as_array().unwrap().iter().filter_map(|item| item["auditID"].as_str()).collect()
    }

    async fn stores(backend: &Backend, id: &str) -> bool {
        let until = tokio::time::Instant::now() + Duration::from_secs(60);
        backend.begin(Some(&event(id)), until).await.is_stored
    }

    const SOON: Batch =
        Batch { max_size: 3, max_wait: Duration::from_millis(50), initial_backoff: Duration::from_millis(1) };

    #[tokio::test]
    async fn events_are_sent_in_lists() {
        let long = Batch { max_wait: Duration::from_secs(600), ..SOON };
        let (backend, mut lists, _) = backend(0, Mode::Batch, long).await;
        for id in ["a", "b", "c", "d"] {
            backend.queue(&event(id), Share::All);
        }
        let (path, first) = lists.recv().await.unwrap();
        assert_eq!((path.as_str(), ids(&first)), ("/audit?x=y", vec!["a", "b", "c"]));
        backend.flush().await;
        assert_eq!(ids(&lists.recv().await.unwrap().1), ["d"]);
    }

    #[tokio::test]
    async fn refused_list_is_sent_again() {
        let (backend, mut lists, errors) = backend(4, Mode::BlockingStrict, SOON).await;
        assert!(stores(&backend, "a").await);
        assert_eq!(ids(&lists.recv().await.unwrap().1), ["a"]);
        assert_eq!(errors.get(), 0);
    }

    #[tokio::test]
    async fn list_is_lost_and_counted_after_five_attempts() {
        let (backend, mut lists, errors) = backend(5, Mode::Blocking, SOON).await;
        assert!(!stores(&backend, "a").await);
        assert_eq!(errors.get(), 1);
        assert!(stores(&backend, "b").await);
        assert_eq!(ids(&lists.recv().await.unwrap().1), ["b"]);
    }
}
