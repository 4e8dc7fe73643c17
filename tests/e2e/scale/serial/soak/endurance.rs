//! No request fails while the member's token is renewed repeatedly, each old token becomes invalid,
//! and the two replicas restart one after the other. Requests go through the host and past it.
//! `make soak` runs the same for half an hour.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread::Scope;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::bed::member;
use harness::caller::Caller;
use harness::registration;
use harness::scene::{EVERY_VERB, Scene};
use serde_json::json;

use super::say;
use crate::number;

mod clients;
mod execs;
mod replicas;
mod tokens;
mod watches;

use clients::Client;
use replicas::Replicas;
use tokens::Tokens;

#[test]
fn token_renewal_and_rolling_restart_lose_no_request() -> Result<()> {
    let time = Duration::from_secs(number("ENDURANCE_SECONDS", 45));
    let rate = number("ENDURANCE_RATE", 100);
    let scene = Scene::new("endurance")?;
    let tokens = Tokens { scene: &scene };
    let m1 = member("m1")?;
    registration::register(
        MEMBER,
        &json!({
            "server": m1.server, "ca.crt": std::fs::read_to_string(&m1.ca_certificate)?, "token": tokens.issue(0)?,
        }),
    )?;
    let caller = Caller::certificate("e2e-endurance-user", &[])?;
    scene.let_in(&caller, &[MEMBER], EVERY_VERB)?;
    scene.allow(&caller)?;
    scene.pod("shell", "exec sleep 100000")?;
    let mut replicas = Replicas::start(&caller)?;

    let (wrong, wrongs) = mpsc::channel();
    let tally = Tally::of(wrong);
    let restarts = std::thread::scope(|scope| {
        let outcome =
            day(scope, &scene, &caller, &tokens, &mut replicas, (time, u32::try_from(rate)?), &tally);
        // The threads wait for this, even after an early failure.
        let _ = tally.over.set(Instant::now());
        outcome
    })?;
    let served = replicas.served()?;
    say(&format!("{time:?}: {tally}, {restarts} rolling restarts, {served} requests served"));
    let wrong: Vec<String> = wrongs.try_iter().collect();
    ensure!(wrong.is_empty(), "{} failed, the first: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    // The test is valid only if enough requests ran, all through these replicas.
    let asked = tally.asked.load(Ordering::SeqCst);
    ensure!(asked * 10 >= rate * time.as_secs() * 9, "only {asked} requests in {time:?}");
    ensure!(served >= asked, "{served} of {asked} requests came by these replicas");
    ensure!(tally.renewed.load(Ordering::SeqCst) >= 3, "the token was not renewed");
    ensure!(restarts > 0, "no replica was restarted");
    Ok(())
}

/// Starts all clients, restarts the replicas at intervals, and compares at the end. Returns the number of
/// restarts.
fn day<'scope>(
    scope: &'scope Scope<'scope, '_>,
    scene: &'scope Scene,
    caller: &Caller,
    tokens: &'scope Tokens<'_>,
    replicas: &mut Replicas,
    (time, rate): (Duration, u32),
    tally: &'scope Tally,
) -> Result<u32> {
    let since = scene.api.get(&configmaps(&scene.name))?["metadata"]["resourceVersion"].clone();
    let mut watches = Vec::new();
    for number in 0..WATCHES {
        let way = watches::Way::new(number % 2 == 0, caller, replicas.subscribe())?;
        let since = since.as_str().unwrap_or_default().to_owned();
        watches.push(scope.spawn(move || watches::follow(way, &scene.name, since, tally)));
    }
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let client = Client::new(number, &scene.name, caller, replicas.subscribe(), tally)?;
        clients.push(scope.spawn(move || client.run(Duration::from_secs(CLIENTS) / rate)));
    }
    let (execs, serving) = (execs::Execs::new(scene, caller)?, replicas.subscribe());
    scope.spawn(move || execs.run(&serving, tally));
    scope.spawn(move || tokens.renew((time / 4).min(Duration::from_secs(60)), tally));

    let every = Duration::from_secs(number("ENDURANCE_RESTART_SECONDS", 180)).min(time / 2);
    let end = tally.begin + time;
    let (mut due, mut restarts) = (tally.begin + every / 2, 0);
    while due.max(Instant::now()) < end {
        tally.wait_until(due);
        let rolled = replicas.roll();
        tally.judge("a rolling restart", rolled);
        (due, restarts) = (due + every, restarts + 1);
    }
    tally.wait_until(end);
    // Only this thread ends the run.
    let _ = tally.over.set(Instant::now());

    let mut made: Vec<String> =
        clients.into_iter().flat_map(|client| client.join().unwrap_or_default()).collect();
    scene.api.create(&configmaps(&scene.name), &clients::config_map(watches::LAST, 0))?;
    made.push(watches::LAST.to_owned());
    made.sort_unstable();
    for (number, watch) in watches.into_iter().enumerate() {
        let mut seen = watch.join().unwrap_or_default();
        seen.sort_unstable();
        if seen != made {
            tally.wrong(format!("watch {number} saw {} of {}", seen.len(), made.len()));
        }
    }
    Ok(restarts)
}

/// The results of the run.
struct Tally {
    begin: Instant,
    over: OnceLock<Instant>,
    asked: AtomicU64,
    /// Reads that were repeated because their kept connection had ended.
    again: AtomicU64,
    execs: AtomicU64,
    renewed: AtomicU64,
    /// Watches that resumed where they had ended.
    watched_on: AtomicU64,
    wrong: mpsc::Sender<String>,
}

impl Tally {
    fn of(wrong: mpsc::Sender<String>) -> Self {
        let [asked, again, execs, renewed, watched_on] = [(); 5].map(|()| AtomicU64::new(0));
        Self { begin: Instant::now(), over: OnceLock::new(), asked, again, execs, renewed, watched_on, wrong }
    }

    fn judge<T>(&self, what: &str, outcome: Result<T>) -> Option<T> {
        outcome.inspect_err(|error| self.wrong(format!("{what}: {error:#}"))).ok()
    }

    fn is_over(&self) -> bool {
        self.over.get().is_some()
    }

    /// Waits until `due`, or until the run is over.
    fn wait_until(&self, due: Instant) {
        while let Some(left) = due.checked_duration_since(Instant::now())
            && !self.is_over()
        {
            std::thread::park_timeout(left.min(Duration::from_millis(100)));
        }
    }

    fn wrong(&self, what: String) {
        // After a failed test the receiver is gone.
        let _ = self.wrong.send(format!("after {:.1?}: {what}", self.begin.elapsed()));
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        let Self { asked, again, execs, renewed, watched_on, .. } = self;
        write!(f, "{} requests ({} sent again), {} execs, ", of(asked), of(again), of(execs))?;
        write!(f, "{} new tokens, {} watches taken up again", of(renewed), of(watched_on))
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::SeqCst);
}

fn configmaps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// A separate registration of m1, so that its token may change.
const MEMBER: &str = "e2e-endurance";
const CLIENTS: u64 = 16;
const WATCHES: u64 = 4;
