//! Provides a fake host with one Lease, and replicas that compete for it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;

/// A host with one Lease, which behaves like a kube-apiserver.
#[derive(Clone, Default)]
pub(super) struct Host(pub(super) Arc<Kept>);

#[derive(Default)]
pub(super) struct Kept {
    #[expect(clippy::disallowed_types, reason = "a test's, and never over an await")]
    state: std::sync::Mutex<State>,
    /// The number of changes.
    changes: watch::Sender<usize>,
    /// The number of current leaders, and its maximum.
    leading: AtomicUsize,
    most: AtomicUsize,
    watches: Watches,
    /// Writes fail with 500.
    pub(super) broken: AtomicBool,
    /// Writes take effect, but the response is 500.
    pub(super) mute: AtomicBool,
    /// The host does not respond.
    pub(super) away: AtomicBool,
    /// A delayed renewal takes effect just after the next read.
    pub(super) late: AtomicBool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) lease: Option<Value>,
    /// The events of a watch, each one version later than the one before it.
    events: Vec<Value>,
    written: Option<Instant>,
    pub(super) asked: BTreeMap<&'static str, usize>,
}

/// The behavior of watches.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Watches {
    #[default]
    Tell,
    /// Watches start, but deliver no events.
    Silent,
    /// Watches end immediately.
    End,
    Forbidden,
}

type Answer = Response<UnsyncBoxBody<Bytes, std::io::Error>>;

impl Host {
    pub(super) fn with_watches(watches: Watches) -> Self {
        Self(Arc::new(Kept { watches, ..Kept::default() }))
    }

    fn leases(&self) -> Api<Lease> {
        let own = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let own = own.clone();
            async move {
                // Other requests can run while this one is in progress.
                tokio::task::yield_now().await;
                let (head, body) = request.into_parts();
                let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
                if own.0.away.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                own.answer(&head, &serde_json::from_slice(&body).unwrap_or_default())
            }
        });
        Api::namespaced(kube::Client::new(service, "ns"), "ns")
    }

    fn answer(&self, head: &http::request::Parts, written: &Value) -> std::io::Result<Answer> {
        let of_one = head.uri.path().ends_with("/leases/mc-sidecar");
        let query = head.uri.query().unwrap_or_default();
        let what = match head.method {
            Method::GET if query.contains("watch=true") => "watch",
            Method::GET if of_one => "get",
            Method::PUT if of_one => "update",
            Method::POST if !of_one => "create",
            _ => panic!("{head:?}"),
        };
        *self.state().asked.entry(what).or_default() += 1;
        match what {
            "watch" => {
                assert!(query.contains("fieldSelector=metadata.name%3Dmc-sidecar"), "{query}");
                let from = query.split('&').find_map(|part| part.strip_prefix("resourceVersion="));
                self.watched(from.and_then(|from| from.parse().ok()))
            }
            "get" => {
                let lease = self.state().lease.clone();
                if let Some(renewed) = lease.as_ref().filter(|_| self.0.late.swap(false, Ordering::SeqCst)) {
                    self.write(renewed).unwrap();
                }
                lease.map_or_else(|| failure(404, "NotFound"), |lease| answered(200, &lease))
            }
            _ if self.0.broken.load(Ordering::SeqCst) => failure(500, "InternalError"),
            _ => match self.write(written) {
                Ok(lease) if !self.0.mute.load(Ordering::SeqCst) => answered(200, &lease),
                Ok(_) => failure(500, "InternalError"),
                Err((code, reason)) => failure(code, reason),
            },
        }
    }

    /// Writes the Lease, if its resource version is the writer's.
    pub(super) fn write(&self, written: &Value) -> Result<Value, (u16, &'static str)> {
        let mut state = self.state();
        let believed = &written["metadata"]["resourceVersion"];
        match &state.lease {
            None if !believed.is_null() => return Err((404, "NotFound")),
            Some(_) if believed.is_null() => return Err((409, "AlreadyExists")),
            Some(lease) if lease["metadata"]["resourceVersion"] != *believed => {
                return Err((409, "Conflict"));
            }
            None | Some(_) => {}
        }
        let kind = if state.lease.is_some() { "MODIFIED" } else { "ADDED" };
        Ok(self.tell(&mut state, kind, written.clone()))
    }

    pub(super) fn delete(&self) {
        let mut state = self.state();
        let lease = state.lease.take().unwrap();
        self.tell(&mut state, "DELETED", lease);
        state.lease = None;
    }

    /// Stores the Lease and sends an event to the watches.
    fn tell(&self, state: &mut State, kind: &str, mut lease: Value) -> Value {
        lease["metadata"]["resourceVersion"] = (state.events.len() + 1).to_string().into();
        state.events.push(json!({"type": kind, "object": lease}));
        state.lease = Some(lease.clone());
        state.written = Some(Instant::now());
        self.0.changes.send_replace(state.events.len());
        lease
    }

    /// The events after a version or, without a version, the current Lease; then the following events.
    fn watched(&self, from: Option<usize>) -> std::io::Result<Answer> {
        let all = self.state().events.len();
        let from = from.unwrap_or_else(|| all - usize::from(self.state().lease.is_some()));
        let (own, changes) = (self.clone(), self.0.changes.subscribe());
        let events = stream::unfold((from, changes), move |(from, mut changes)| {
            let own = own.clone();
            async move {
                changes.wait_for(|&changes| changes > from).await.ok()?;
                let line = format!("{}\n", own.state().events[from]);
                Some((Ok(Frame::data(Bytes::from(line))), (from + 1, changes)))
            }
        });
        let body = match self.0.watches {
            Watches::Tell => StreamBody::new(events).boxed_unsync(),
            Watches::Silent => StreamBody::new(stream::pending()).boxed_unsync(),
            Watches::End => StreamBody::new(stream::empty()).boxed_unsync(),
            Watches::Forbidden => return failure(403, "Forbidden"),
        };
        Ok(Response::new(body))
    }

    pub(super) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of requests of this kind.
    pub(super) fn asked(&self, what: &str) -> usize {
        self.state().asked.get(what).copied().unwrap_or_default()
    }

    pub(super) fn holder(&self) -> String {
        self.state().lease.as_ref().unwrap()["spec"]["holderIdentity"].as_str().unwrap().to_owned()
    }

    /// When the Lease was last written.
    pub(super) fn written(&self) -> Instant {
        self.state().written.unwrap()
    }

    /// Whether there was never more than one leader.
    pub(super) fn had_one_leader(&self) -> bool {
        self.0.most.load(Ordering::SeqCst) == 1
    }

    pub(super) fn candidate(&self) -> Replica {
        let (leads, seen) = watch::channel(false);
        let (stop, host) = (CancellationToken::new(), self.0.clone());
        let lead = move |_| {
            let (leads, host) = (leads.clone(), host.clone());
            async move {
                let _guard = Leads::now(leads, host);
                std::future::pending().await
            }
        };
        let task = tokio::spawn(run(self.leases(), config(), Gauge::default(), stop.clone(), lead));
        Replica { leads: seen, stop, task }
    }
}

fn answered(code: u16, value: &Value) -> std::io::Result<Answer> {
    let body = Full::new(Bytes::from(value.to_string())).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(code).body(body).map_err(std::io::Error::other)
}

fn failure(code: u16, reason: &str) -> std::io::Result<Answer> {
    answered(code, &json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason}))
}

struct Leads(watch::Sender<bool>, Arc<Kept>);

impl Leads {
    fn now(leads: watch::Sender<bool>, host: Arc<Kept>) -> Self {
        let leading = host.leading.fetch_add(1, Ordering::SeqCst) + 1;
        host.most.fetch_max(leading, Ordering::SeqCst);
        leads.send_replace(true);
        Self(leads, host)
    }
}

impl Drop for Leads {
    fn drop(&mut self) {
        self.1.leading.fetch_sub(1, Ordering::SeqCst);
        self.0.send_replace(false);
    }
}

pub(super) struct Replica {
    pub(super) leads: watch::Receiver<bool>,
    pub(super) stop: CancellationToken,
    pub(super) task: JoinHandle<()>,
}

impl Replica {
    pub(super) async fn until(&mut self, leads: bool) {
        let until = self.leads.wait_for(|&now| now == leads);
        timeout(Duration::from_secs(3600), until).await.unwrap().unwrap();
    }

    pub(super) fn leads(&self) -> bool {
        *self.leads.borrow()
    }

    /// Kills the replica without releasing the Lease. Other replicas must assume that it has led until now.
    pub(super) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}
