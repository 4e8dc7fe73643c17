use super::*;

const NOW: Duration = Duration::ZERO;

/// A breaker's state, and a clock that the test advances.
struct Scene {
    state: State,
    now: Instant,
}

impl Scene {
    fn new() -> Self {
        Self { state: State::default(), now: Instant::now() + Duration::from_secs(3600) }
    }

    /// A breaker that is open, because the member has refused connections for long enough.
    fn open() -> Self {
        let mut scene = Self::new();
        scene.fail(NOW);
        scene.pass(TIMEOUT);
        assert_eq!(scene.fail(NOW), Change::Opened);
        scene
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn fail(&mut self, took: Duration) -> Change {
        self.state.failed(self.now, took, || "refused".to_owned())
    }

    fn wait(&mut self) -> Duration {
        self.state.admit(self.now).unwrap_err().wait
    }
}

#[test]
fn simultaneous_failures_do_not_open_the_breaker() {
    let mut scene = Scene::new();
    for _ in 0..1000 {
        assert_eq!(scene.fail(NOW), Change::Other);
        scene.pass(Duration::from_micros(900));
    }
    assert!(!scene.state.admit(scene.now).unwrap());
}

#[test]
fn lasting_failures_and_one_slow_failure_open_the_breaker() {
    Scene::open();
    assert_eq!(Scene::new().fail(CONNECT_TIMEOUT), Change::Opened);
}

#[test]
fn open_breaker_reports_start_cause_and_next_attempt() {
    let mut scene = Scene::open();
    let told = scene.state.admit(scene.now).unwrap_err().to_string();
    assert!(told.starts_with("since 2") && told.contains(" (refused), next try in "), "{told}");
    assert!(scene.wait() >= FIRST_PAUSE && scene.wait() <= FIRST_PAUSE.mul_f64(1.2));
}

#[test]
fn one_trial_request_is_sent_after_the_pause() {
    let mut scene = Scene::open();
    scene.pass(FIRST_PAUSE * 2);
    assert!(scene.state.admit(scene.now).unwrap());
    assert!(scene.state.admit(scene.now).is_err());
    assert!(scene.state.connected());
    assert!(!scene.state.admit(scene.now).unwrap());
}

#[test]
fn abandoned_trial_lets_the_next_request_try() {
    let mut scene = Scene::open();
    scene.pass(FIRST_PAUSE * 2);
    assert!(scene.state.admit(scene.now).unwrap());
    scene.state.given_up(scene.now);
    assert!(scene.state.admit(scene.now).unwrap());
    scene.pass(TRIAL);
    assert!(scene.state.admit(scene.now).unwrap());
}

#[test]
fn failed_trials_double_the_pause_up_to_its_maximum() {
    let mut scene = Scene::open();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let pause = scene.wait();
        pauses.push(pause);
        scene.pass(pause);
        assert!(scene.state.admit(scene.now).unwrap());
        assert_eq!(scene.fail(NOW), Change::Other);
        // Attempts that began before the breaker opened.
        scene.fail(CONNECT_TIMEOUT);
        scene.fail(CONNECT_TIMEOUT);
    }
    for (pause, least) in pauses.iter().zip([1, 2, 4, 8, 16, 30, 30, 30].map(Duration::from_secs)) {
        assert!(*pause >= least && *pause <= least.mul_f64(1.2), "{pauses:?}");
    }
}

#[test]
fn connection_without_an_answer_does_not_close_the_breaker() {
    let mut scene = Scene::open();
    scene.pass(FIRST_PAUSE * 2);
    assert!(scene.state.admit(scene.now).unwrap());
    scene.state.connected();
    assert_eq!(scene.fail(NOW), Change::Opened);
    assert!(scene.wait() >= FIRST_PAUSE * 2);
}

#[test]
fn answer_closes_and_resets_the_breaker() {
    let open = Gauge::default();
    let breaker = Breaker::new("m1".parse().unwrap(), open.clone());
    breaker.failed(CONNECT_TIMEOUT, "timed out");
    assert_eq!(open.get(), 1);
    assert!(breaker.admit().is_err());
    breaker.answered();
    assert_eq!(open.get(), 0);
    assert!(!breaker.admit().unwrap().trial);
    breaker.failed(NOW, "refused");
    assert!(breaker.admit().is_ok());
}

#[test]
fn dropped_breaker_is_not_counted() {
    let open = Gauge::default();
    let breaker = Breaker::new("m1".parse().unwrap(), open.clone());
    breaker.failed(CONNECT_TIMEOUT, "timed out");
    drop(breaker);
    assert_eq!(open.get(), 0);
}

#[test]
fn retry_after_follows_the_pause_and_has_jitter() {
    let refused = Unreachable {
        since: Timestamp::now(),
        reason: String::new(),
        lasts: NOW,
        wait: Duration::from_millis(2500),
    };
    let seconds: std::collections::BTreeSet<_> = (0..1000).map(|_| refused.retry_after()).collect();
    assert_eq!(seconds, [3, 4, 5].into());
}

#[test]
fn reported_outage_opens_the_breaker_for_a_trial() {
    let mut scene = Scene::new();
    let since = Timestamp::now().checked_sub(jiff::SignedDuration::from_hours(2)).unwrap();
    assert!(scene.state.reported(scene.now, since, "timed out"));
    assert!(scene.state.admit(scene.now).unwrap(), "the first one tries");
    let refused = scene.state.admit(scene.now).unwrap_err();
    assert!(!refused.is_short() && refused.to_string().contains("(timed out)"), "{refused}");
    // This replica cannot reach the member either.
    assert_eq!(scene.fail(CONNECT_TIMEOUT), Change::Other);
    assert!(scene.wait() >= FIRST_PAUSE);
    assert!(!scene.state.reported(scene.now, since, "timed out"), "it is open");
}

#[test]
fn reported_recovery_closes_until_the_next_failure() {
    let mut scene = Scene::open();
    assert!(scene.state.admit(scene.now).is_err());
    assert!(scene.state.reported_reachable());
    assert!(!scene.state.admit(scene.now).unwrap(), "no request tries for others");
    assert_eq!(scene.fail(Duration::ZERO), Change::Opened, "the member is dead from here");
    scene.now += LAST_PAUSE * 2;
    assert!(scene.state.admit(scene.now).unwrap());
    assert!(!scene.state.reported_reachable(), "one tries already");
}
