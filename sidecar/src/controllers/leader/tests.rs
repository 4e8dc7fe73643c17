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

/// A host with one Lease, kept as a kube-apiserver keeps it.
#[derive(Clone, Default)]
struct Host(Arc<Kept>);

#[derive(Default)]
struct Kept {
    #[expect(clippy::disallowed_types, reason = "a test's, and never over an await")]
    state: std::sync::Mutex<State>,
    /// How many changes there were.
    changes: watch::Sender<usize>,
    /// How many lead, and the most that ever did.
    leading: AtomicUsize,
    most: AtomicUsize,
    watches: Watches,
    /// Writes are answered 500.
    broken: AtomicBool,
    /// Writes are made, and answered 500.
    mute: AtomicBool,
    /// Nothing is answered.
    away: AtomicBool,
}

#[derive(Default)]
struct State {
    lease: Option<Value>,
    /// The events of a watch, each one version later than the one before it.
    events: Vec<Value>,
    written: Option<Instant>,
    asked: BTreeMap<&'static str, usize>,
}

/// What becomes of watches.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Watches {
    #[default]
    Tell,
    /// They begin, and that is all.
    Silent,
    /// They end as soon as they began.
    End,
    Forbidden,
}

type Answer = Response<UnsyncBoxBody<Bytes, std::io::Error>>;

impl Host {
    fn whose_watches(watches: Watches) -> Self {
        Self(Arc::new(Kept { watches, ..Kept::default() }))
    }

    fn leases(&self) -> Api<Lease> {
        let own = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let own = own.clone();
            async move {
                // Others get a chance to ask while this question is open.
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

    /// Changes the Lease, if it is as the writer believes.
    fn write(&self, written: &Value) -> Result<Value, (u16, &'static str)> {
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

    fn delete(&self) {
        let mut state = self.state();
        let lease = state.lease.take().unwrap();
        self.tell(&mut state, "DELETED", lease);
        state.lease = None;
    }

    /// Lets watches know.
    fn tell(&self, state: &mut State, kind: &str, mut lease: Value) -> Value {
        lease["metadata"]["resourceVersion"] = (state.events.len() + 1).to_string().into();
        state.events.push(json!({"type": kind, "object": lease}));
        state.lease = Some(lease.clone());
        state.written = Some(Instant::now());
        self.0.changes.send_replace(state.events.len());
        lease
    }

    /// What came after a version, or, where there is none, what there is; and what comes.
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

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The times that something was asked.
    fn asked(&self, what: &str) -> usize {
        self.state().asked.get(what).copied().unwrap_or_default()
    }

    fn holder(&self) -> String {
        self.state().lease.as_ref().unwrap()["spec"]["holderIdentity"].as_str().unwrap().to_owned()
    }

    /// When the Lease was last written.
    fn written(&self) -> Instant {
        self.state().written.unwrap()
    }

    /// Nobody ever led beside another.
    fn had_one_leader(&self) -> bool {
        self.0.most.load(Ordering::SeqCst) == 1
    }

    fn candidate(&self) -> Replica {
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

struct Replica {
    leads: watch::Receiver<bool>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Replica {
    async fn until(&mut self, leads: bool) {
        let until = self.leads.wait_for(|&now| now == leads);
        timeout(Duration::from_secs(3600), until).await.unwrap().unwrap();
    }

    fn leads(&self) -> bool {
        *self.leads.borrow()
    }

    /// Ends it without a word. It may have led until now, for all that others know.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

fn config() -> Config {
    Config {
        resource_name: "mc-sidecar".to_owned(),
        lease_duration: seconds(15),
        renew_deadline: seconds(10),
        retry_period: seconds(2),
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Requests take no time here.
const NO_TIME: Duration = Duration::from_millis(50);

#[tokio::test(start_paused = true)]
async fn one_leads_for_as_long_as_it_lives_at_the_cost_of_its_renewals() {
    let host = Host::default();
    let mut first = host.candidate();
    first.until(true).await;
    let second = host.candidate();
    sleep(seconds(600)).await;
    assert!(first.leads() && !second.leads());
    let renewals = host.asked("update");
    assert!((299..=300).contains(&renewals), "{renewals}");
    assert_eq!((host.asked("get"), host.asked("watch")), (2, 1), "one look each, and a watch");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_told_to_stop_lets_another_lead_at_once() {
    let host = Host::default();
    let mut first = host.candidate();
    first.until(true).await;
    let mut second = host.candidate();
    sleep(seconds(61)).await;
    first.stop.cancel();
    let stopped = Instant::now();
    first.task.await.unwrap();
    second.until(true).await;
    assert!(stopped.elapsed() < NO_TIME, "{:?}", stopped.elapsed());
    assert!(host.had_one_leader());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_killed_is_followed_at_the_moment_its_lease_is_over() {
    let host = Host::default();
    let mut first = host.candidate();
    first.until(true).await;
    let mut second = host.candidate();
    sleep(seconds(61)).await;
    first.kill().await;
    let renewed = host.written();
    second.until(true).await;
    let took = renewed.elapsed();
    assert!(took >= seconds(15) && took < seconds(15) + NO_TIME, "{took:?}");
    // Silence may be the watch's, so it looks now and then.
    assert!(host.asked("get") <= 6, "{}", host.asked("get"));
}

#[tokio::test(start_paused = true)]
async fn many_who_wait_for_one_lease_ask_little_when_it_is_over() {
    let host = Host::default();
    let mut first = host.candidate();
    first.until(true).await;
    let replicas: Vec<_> = (0..20).map(|_| host.candidate()).collect();
    sleep(seconds(61)).await;
    first.kill().await;
    sleep((host.written() + seconds(15) - NO_TIME).duration_since(Instant::now())).await;
    host.state().asked.clear();
    sleep(seconds(1)).await;
    assert_eq!(replicas.iter().filter(|replica| replica.leads()).count(), 1);
    assert_eq!(host.state().asked, BTreeMap::from([("get", 20), ("update", 20)]), "a try each, and no more");
    sleep(seconds(60)).await;
    assert!(host.had_one_leader());
}

/// What the watch does not tell costs time, and never lets two lead, or nobody.
#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_work_is_done_without() {
    for (watches, longest) in [(Watches::Silent, 4), (Watches::End, 3), (Watches::Forbidden, 3)] {
        let host = Host::whose_watches(watches);
        let mut first = host.candidate();
        first.until(true).await;
        let mut second = host.candidate();
        sleep(seconds(601)).await;
        assert!(first.leads() && !second.leads());
        let looks = host.asked("get");
        assert!(looks <= 302, "{looks}");
        first.kill().await;
        let renewed = host.written();
        second.until(true).await;
        let took = renewed.elapsed();
        assert!(took >= seconds(15) && took <= seconds(15 + 2 * longest), "{took:?}");
        assert!(host.had_one_leader());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_is_made_again_by_who_holds_it() {
    let host = Host::default();
    let mut first = host.candidate();
    first.until(true).await;
    let mut second = host.candidate();
    sleep(seconds(61)).await;
    host.delete();
    sleep(seconds(30)).await;
    assert!(first.leads() && !second.leads() && host.had_one_leader());
    // Nobody knows that its holder is dead.
    first.kill().await;
    let renewed = host.written();
    host.delete();
    second.until(true).await;
    let took = renewed.elapsed();
    assert!(took >= seconds(15) && took < seconds(15) + NO_TIME, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn fault_80_the_times_in_a_lease_are_nothing_to_those_who_wait_for_it() {
    for renewed in ["2000-01-01T00:00:00.000000Z", "2100-01-01T00:00:00.000000Z"] {
        let host = Host::default();
        let spec = json!({"holderIdentity": "another", "leaseDurationSeconds": 15, "renewTime": renewed});
        host.write(&json!({"metadata": {"name": "mc-sidecar"}, "spec": spec})).unwrap();
        let (mut replica, began) = (host.candidate(), Instant::now());
        replica.until(true).await;
        let took = began.elapsed();
        assert!(took >= seconds(15) && took < seconds(15) + NO_TIME, "{renewed}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_renew_stops_before_its_lease_is_over() {
    let host = Host::default();
    let mut first = host.candidate();
    first.until(true).await;
    host.0.broken.store(true, Ordering::SeqCst);
    let broken = Instant::now();
    first.until(false).await;
    let took = broken.elapsed();
    assert!(took <= seconds(10), "{took:?}");
    host.0.broken.store(false, Ordering::SeqCst);
    first.until(true).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_not_told_of_its_own_write_goes_on() {
    let host = Host::default();
    let mut first = host.candidate();
    first.until(true).await;
    let second = host.candidate();
    host.0.mute.store(true, Ordering::SeqCst);
    sleep(seconds(5)).await;
    host.0.mute.store(false, Ordering::SeqCst);
    sleep(seconds(60)).await;
    assert!(first.leads() && !second.leads() && host.had_one_leader());
}

#[tokio::test(start_paused = true)]
async fn a_host_that_was_away_finds_one_leader_when_it_is_back() {
    let host = Host::default();
    let mut first = host.candidate();
    first.until(true).await;
    let mut second = host.candidate();
    sleep(seconds(61)).await;
    host.0.away.store(true, Ordering::SeqCst);
    let away = Instant::now();
    first.until(false).await;
    assert!(away.elapsed() <= seconds(10), "{:?}", away.elapsed());
    sleep(seconds(60)).await;
    host.0.away.store(false, Ordering::SeqCst);
    let back = Instant::now();
    tokio::select! {
        () = first.until(true) => {}
        () = second.until(true) => {}
    }
    // Whoever asks is waiting for the answer to a question that was lost, and then for its turn.
    assert!(back.elapsed() <= seconds(5 + 3), "{:?}", back.elapsed());
    sleep(seconds(60)).await;
    assert!(first.leads() != second.leads() && host.had_one_leader());
}

#[tokio::test(start_paused = true)]
async fn one_whose_lease_is_taken_stops() {
    let host = Host::default();
    let mut first = host.candidate();
    first.until(true).await;
    let mut stolen = host.state().lease.clone().unwrap();
    stolen["spec"]["holderIdentity"] = "another".into();
    host.write(&stolen).unwrap();
    first.until(false).await;
    assert_eq!(host.holder(), "another");
}

#[tokio::test(start_paused = true)]
async fn two_who_come_together_are_not_both_first() {
    for _ in 0..20 {
        let host = Host::default();
        let replicas: Vec<_> = (0..5).map(|_| host.candidate()).collect();
        sleep(seconds(8)).await;
        assert_eq!(replicas.iter().filter(|replica| replica.leads()).count(), 1);
        assert!(host.had_one_leader());
    }
}

#[test]
fn times_that_would_let_two_lead_are_refused() {
    let with = |change: fn(&mut Config)| {
        let mut config = config();
        change(&mut config);
        config.checked().map_err(|error| error.split(':').next().unwrap())
    };
    assert!(with(|_| {}).is_ok());
    assert_eq!(with(|c| c.renew_deadline = c.lease_duration), Err("leader-elect-lease-duration"));
    assert_eq!(with(|c| c.retry_period = c.renew_deadline), Err("leader-elect-renew-deadline"));
}
