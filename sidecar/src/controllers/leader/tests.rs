use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use serde_json::json;

use super::*;

mod host;

use host::{Host, Watches};

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

/// The tolerance of durations; requests of the fake host take no time.
const NO_TIME: Duration = Duration::from_millis(50);

#[tokio::test(start_paused = true)]
async fn leader_keeps_the_lease_by_renewals_alone() {
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
async fn stopped_leader_releases_the_lease_immediately() {
    for is_renewing in [false, true] {
        let host = Host::default();
        let mut first = host.candidate();
        first.until(true).await;
        let mut second = host.candidate();
        sleep(seconds(61)).await;
        host.0.late.store(is_renewing, Ordering::SeqCst);
        first.stop.cancel();
        let stopped = Instant::now();
        first.task.await.unwrap();
        second.until(true).await;
        assert!(stopped.elapsed() < NO_TIME, "renewing: {is_renewing}, {:?}", stopped.elapsed());
        assert!(host.had_one_leader());
    }
}

#[tokio::test(start_paused = true)]
async fn killed_leader_is_replaced_when_its_lease_expires() {
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
    // A silent watch may be broken, so the replica reads the Lease occasionally.
    assert!(host.asked("get") <= 6, "{}", host.asked("get"));
}

#[tokio::test(start_paused = true)]
async fn each_waiting_replica_tries_once_when_the_lease_expires() {
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

/// A failed watch costs time, but never leads to two leaders or to none.
#[tokio::test(start_paused = true)]
async fn election_works_without_the_watch() {
    for (watches, longest) in [(Watches::Silent, 4), (Watches::End, 3), (Watches::Forbidden, 3)] {
        let host = Host::with_watches(watches);
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
async fn deleted_lease_is_recreated_by_its_holder() {
    let host = Host::default();
    let mut first = host.candidate();
    first.until(true).await;
    let mut second = host.candidate();
    sleep(seconds(61)).await;
    host.delete();
    sleep(seconds(30)).await;
    assert!(first.leads() && !second.leads() && host.had_one_leader());
    // The other replica cannot know that the holder is dead.
    first.kill().await;
    let renewed = host.written();
    host.delete();
    second.until(true).await;
    let took = renewed.elapsed();
    assert!(took >= seconds(15) && took < seconds(15) + NO_TIME, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn fault_80_candidates_ignore_the_times_in_a_lease() {
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
async fn leader_that_cannot_renew_stops_before_the_lease_expires() {
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
async fn leader_survives_a_lost_response_to_its_write() {
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
async fn host_outage_ends_with_one_leader() {
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
    // A replica first waits for the timeout of a lost request, and then for its retry.
    assert!(back.elapsed() <= seconds(5 + 3), "{:?}", back.elapsed());
    sleep(seconds(60)).await;
    assert!(first.leads() != second.leads() && host.had_one_leader());
}

#[tokio::test(start_paused = true)]
async fn leader_stops_when_its_lease_is_taken() {
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
async fn concurrent_candidates_elect_one_leader() {
    for _ in 0..20 {
        let host = Host::default();
        let replicas: Vec<_> = (0..5).map(|_| host.candidate()).collect();
        sleep(seconds(8)).await;
        assert_eq!(replicas.iter().filter(|replica| replica.leads()).count(), 1);
        assert!(host.had_one_leader());
    }
}

#[test]
fn election_times_that_allow_two_leaders_are_refused() {
    let with = |change: fn(&mut Config)| {
        let mut config = config();
        change(&mut config);
        config.checked().map_err(|error| error.split(':').next().unwrap())
    };
    assert!(with(|_| {}).is_ok());
    assert_eq!(with(|c| c.renew_deadline = c.lease_duration), Err("leader-elect-lease-duration"));
    assert_eq!(with(|c| c.retry_period = c.renew_deadline), Err("leader-elect-renew-deadline"));
}
