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

/// Requests take no time here.
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
async fn one_that_is_told_to_stop_lets_another_lead_at_once() {
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
