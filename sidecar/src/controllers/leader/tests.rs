use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;
use crate::fake_host::host;

/// A host with one Lease, kept as a kube-apiserver keeps it.
#[derive(Clone, Default)]
struct Host {
    #[expect(clippy::disallowed_types, reason = "a test's, and never over an await")]
    lease: Arc<std::sync::Mutex<Option<Value>>>,
    version: Arc<AtomicU64>,
    /// Writes are answered 500.
    broken: Arc<AtomicBool>,
}

impl Host {
    fn leases(&self) -> Api<Lease> {
        let own = self.clone();
        let (client, _) = host(move |written| own.answer(written));
        Api::namespaced(client, "ns")
    }

    fn answer(&self, written: &Value) -> (u16, Value) {
        let mut lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = |code: u16| {
            let reason = if code == 404 { "NotFound" } else { "" };
            (code, json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason}))
        };
        if written.is_null() {
            return lease.clone().map_or_else(|| failure(404), |lease| (200, lease));
        }
        if self.broken.load(Ordering::SeqCst) {
            return failure(500);
        }
        let known = lease.as_ref().map_or(&Value::Null, |lease| &lease["metadata"]["resourceVersion"]);
        if written["metadata"]["resourceVersion"] != *known {
            return failure(409);
        }
        let mut written = written.clone();
        let version = self.version.fetch_add(1, Ordering::SeqCst) + 1;
        written["metadata"]["resourceVersion"] = version.to_string().into();
        *lease = Some(written.clone());
        (200, written)
    }

    fn holder(&self) -> String {
        let lease = self.lease.lock().unwrap();
        lease.as_ref().unwrap()["spec"]["holderIdentity"].as_str().unwrap().to_owned()
    }

    fn candidate(&self) -> Replica {
        let (leads, seen) = watch::channel(false);
        let stop = CancellationToken::new();
        let lead = move |_| {
            let leads = leads.clone();
            async move {
                let _guard = Leads::now(leads);
                std::future::pending().await
            }
        };
        let task = tokio::spawn(run(self.leases(), config(), Gauge::default(), stop.clone(), lead));
        Replica { leads: seen, stop, task }
    }
}

struct Leads(watch::Sender<bool>);

impl Leads {
    fn now(leads: watch::Sender<bool>) -> Self {
        leads.send_replace(true);
        Self(leads)
    }
}

impl Drop for Leads {
    fn drop(&mut self) {
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
}

fn config() -> Config {
    let seconds = Duration::from_secs;
    Config {
        resource_name: "mc-sidecar".to_owned(),
        lease_duration: seconds(15),
        renew_deadline: seconds(10),
        retry_period: seconds(2),
    }
}

#[tokio::test(start_paused = true)]
async fn one_leads_for_as_long_as_it_lives() {
    let host = Host::default();
    let mut first = host.candidate();
    first.until(true).await;
    let second = host.candidate();
    sleep(Duration::from_secs(600)).await;
    assert!(first.leads() && !second.leads());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_told_to_stop_lets_another_lead_at_once() {
    let host = Host::default();
    let mut first = host.candidate();
    first.until(true).await;
    let mut second = host.candidate();
    first.stop.cancel();
    let stopped = Instant::now();
    first.task.await.unwrap();
    assert!(!*first.leads.borrow());
    second.until(true).await;
    assert!(stopped.elapsed() < Duration::from_secs(4), "{:?}", stopped.elapsed());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_killed_is_followed_when_its_lease_is_over_and_not_before() {
    let host = Host::default();
    let mut first = host.candidate();
    first.until(true).await;
    let mut second = host.candidate();
    sleep(Duration::from_secs(60)).await;
    first.task.abort();
    let killed = Instant::now();
    second.until(true).await;
    let took = killed.elapsed();
    assert!(took > Duration::from_secs(12) && took < Duration::from_secs(20), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn fault_80_the_times_in_a_lease_are_nothing_to_those_who_wait_for_it() {
    for renewed in ["2000-01-01T00:00:00.000000Z", "2100-01-01T00:00:00.000000Z"] {
        let host = Host::default();
        let spec = json!({"holderIdentity": "another", "leaseDurationSeconds": 15, "renewTime": renewed});
        let lease = json!({"metadata": {"name": "mc-sidecar"}, "spec": spec});
        assert_eq!(host.answer(&lease).0, 200);
        let (mut replica, began) = (host.candidate(), Instant::now());
        replica.until(true).await;
        let took = began.elapsed();
        assert!(took >= Duration::from_secs(15) && took < Duration::from_secs(20), "{renewed}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_renew_stops_before_its_lease_is_over() {
    let host = Host::default();
    let mut first = host.candidate();
    first.until(true).await;
    host.broken.store(true, Ordering::SeqCst);
    let broken = Instant::now();
    first.until(false).await;
    let took = broken.elapsed();
    assert!(took <= Duration::from_secs(10), "{took:?}");
    host.broken.store(false, Ordering::SeqCst);
    first.until(true).await;
}

#[tokio::test(start_paused = true)]
async fn one_whose_lease_is_taken_stops() {
    let host = Host::default();
    let mut first = host.candidate();
    first.until(true).await;
    let mut stolen = host.lease.lock().unwrap().clone().unwrap();
    stolen["spec"]["holderIdentity"] = "another".into();
    assert_eq!(host.answer(&stolen).0, 200);
    first.until(false).await;
    assert_eq!(host.holder(), "another");
}

#[tokio::test(start_paused = true)]
async fn two_who_come_together_are_not_both_first() {
    for _ in 0..20 {
        let host = Host::default();
        let replicas: Vec<_> = (0..5).map(|_| host.candidate()).collect();
        sleep(Duration::from_secs(8)).await;
        assert_eq!(replicas.iter().filter(|replica| replica.leads()).count(), 1);
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
