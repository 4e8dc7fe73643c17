use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use kubectl_mc_api::MemberCluster;
use serde_json::json;

use super::held::APART;
use super::*;
use crate::controllers::health::probe::Verdict;
use crate::host::token::tests::token;
use crate::members::cluster::tests::{cluster, upstream};

const SUBJECT: &str = "system:serviceaccount:kubectl-mc-system:kubectl-mc-impersonator";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn secret(token: &str) -> Arc<Secret> {
    let data: BTreeMap<_, _> = [("token".to_owned(), ByteString(token.as_bytes().to_vec()))].into();
    Arc::new(Secret { data: Some(data), ..Secret::default() })
}

/// The Secret of a token that is valid from second 0 to 1000.
fn lasting() -> Arc<Secret> {
    secret(&token(&json!({"sub": SUBJECT, "iat": 0, "exp": 1000})))
}

/// The finding for a member with these Secrets and this verdict, at this time.
fn finding(
    connection: Option<Arc<Secret>>,
    manager: Option<Arc<Secret>>,
    verdict: Option<Verdict>,
    second: i64,
    trouble: Option<Trouble>,
) -> Option<(&'static str, String, bool)> {
    let seen = Scene::at(second).now;
    let (mut member, held) = (Held::of(connection.clone(), seen), Held::of(manager.clone(), seen));
    member.trouble = trouble;
    let cluster = cluster(upstream());
    let registered = Registered {
        member: Arc::new(MemberCluster::new("m1", Default::default())),
        origin: Default::default(),
        is_read: true,
        in_two: false,
        connection,
        manager,
        hub_account: None,
        way: Ok(Arc::new(cluster)),
    };
    let known = Known {
        cluster: &"m1".parse().unwrap(),
        registered: &registered,
        member: &member,
        manager: &held,
        verdict: verdict.as_ref(),
        not_enrolled: None,
        overdue: overdue(0.6),
        now: at(second),
    };
    let finding = known.finding()?;
    Some((finding.reason(), finding.message().to_owned(), finding.is_warning()))
}

/// The reason, and whether it is a warning, for a member that accepts the credential.
fn accepted(
    connection: Arc<Secret>,
    manager: Option<Arc<Secret>>,
    second: i64,
    trouble: Option<Trouble>,
) -> (&'static str, bool) {
    let (reason, _, warning) =
        finding(Some(connection), manager, Some(Verdict::Accepted), second, trouble).unwrap();
    (reason, warning)
}

#[tokio::test]
async fn credential_is_valid_only_after_the_member_accepts_it() {
    assert_eq!(finding(Some(lasting()), Some(lasting()), None, 1, None), None);
    assert_eq!(accepted(lasting(), Some(lasting()), 1, None), ("Accepted", false));
    let refused = finding(Some(lasting()), Some(lasting()), Some(Verdict::Refused), 1, None).unwrap();
    assert_eq!((refused.0, refused.2), ("Refused", true));
}

#[tokio::test]
async fn missing_or_expired_credential_is_reported_without_a_probe() {
    assert_eq!(finding(None, None, None, 1, None).unwrap().0, "NoSecret");
    assert_eq!(finding(Some(secret("")), None, None, 1, None).unwrap().0, "NoCredential");
    // The verdict may be older than the expiry.
    let over = finding(Some(lasting()), None, Some(Verdict::Accepted), 1000, None).unwrap();
    assert_eq!((over.0, over.2), ("Expired", true));
    assert!(over.1.contains("m1.manager"), "{}", over.1);
}

#[tokio::test]
async fn token_that_cannot_be_renewed_has_a_reason() {
    let eternal = secret(&token(&json!({"sub": SUBJECT})));
    let expired = secret(&token(&json!({"sub": SUBJECT, "iat": 0, "exp": 5})));
    let trouble = || Some(Trouble { reason: "ManagerRefused", message: "401".to_owned() });
    assert_eq!(accepted(lasting(), None, 10, None), ("NoManager", false));
    assert_eq!(accepted(lasting(), None, 700, None), ("NoManager", true));
    assert_eq!(accepted(eternal.clone(), None, 10, None), ("NoExpiry", true));
    assert_eq!(accepted(secret("opaque"), Some(lasting()), 10, None), ("NoExpiry", true));
    assert_eq!(accepted(lasting(), Some(expired), 10, None), ("ManagerExpired", true));
    assert_eq!(accepted(lasting(), Some(lasting()), 699, trouble()), ("ManagerRefused", true));
    assert_eq!(accepted(lasting(), Some(lasting()), 699, None), ("Accepted", false));
    assert_eq!(accepted(lasting(), Some(lasting()), 700, trouble()), ("RenewalOverdue", true));
    assert_eq!(accepted(lasting(), Some(eternal), 10, None), ("Accepted", false));
}

#[tokio::test]
async fn messages_do_not_contain_the_token() {
    for (manager, verdict, second) in [
        (None, None, 1000),
        (None, Some(Verdict::Accepted), 1),
        (Some(lasting()), Some(Verdict::Accepted), 950),
        (Some(lasting()), Some(Verdict::Refused), 1),
    ] {
        let secret = lasting();
        let token = String::from_utf8(secret.data.as_ref().unwrap()["token"].0.clone()).unwrap();
        let (_, message, _) = finding(Some(secret), manager, verdict, second, None).unwrap();
        assert!(!message.contains(&token), "{message}");
    }
}

/// A wall clock and a monotonic clock that the test controls.
struct Scene {
    now: Now,
}

impl Scene {
    fn at(second: i64) -> Self {
        Self { now: Now { clock: at(second), steady: Instant::now() } }
    }

    fn pass(&mut self, seconds: u64) -> Now {
        self.now.steady += Duration::from_secs(seconds);
        self.set(i64::try_from(seconds).unwrap())
    }

    /// Moves the wall clock by this many seconds.
    fn set(&mut self, seconds: i64) -> Now {
        self.now.clock = at(self.now.clock.as_second() + seconds);
        self.now
    }
}

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// The Secret of a token for one day, issued at `second`.
fn of_a_day(second: i64) -> Arc<Secret> {
    secret(&token(&json!({"sub": SUBJECT, "iat": second, "exp": second + DAY})))
}

/// Whether the token is due with a renewal fraction of one half.
fn is_due(held: &Held, now: Now) -> bool {
    held.due(0.5, now).is_some()
}

fn next(held: &Held, now: Now) -> Duration {
    held.waits(0.5, now).min().unwrap()
}

#[tokio::test]
async fn token_is_due_at_its_fraction_and_not_during_a_renewal() {
    let mut scene = Scene::at(0);
    let mut held = Held::of(Some(lasting()), scene.now);
    assert!(!is_due(&held, scene.pass(440)));
    assert!(next(&held, scene.now) <= Duration::from_secs(60));
    assert!(is_due(&held, scene.pass(61)));
    held.not_before = Some(scene.now.steady + UNDER_WAY);
    assert!(!is_due(&held, scene.pass(59)));
    assert_eq!(next(&held, scene.now), Duration::from_secs(1));
    assert!(is_due(&held, scene.pass(1)));
    assert!(!is_due(&Held::of(Some(secret("opaque")), scene.now), scene.pass(10_000)));
}

#[tokio::test]
async fn fault_80_clock_set_back_delays_no_renewal() {
    // A token for ten minutes, which expires long before the changed clock would show it.
    let mut scene = Scene::at(DAY);
    let (begins, ends) = (DAY, DAY + 600);
    let held =
        Held::of(Some(secret(&token(&json!({"sub": SUBJECT, "iat": begins, "exp": ends})))), scene.now);
    assert!(!is_due(&held, scene.set(-HOUR)));
    assert!(next(&held, scene.now) <= Duration::from_secs(300));
    assert!(is_due(&held, scene.pass(300)));
    // A retry is not delayed either.
    let mut failed = Held::of(Some(of_a_day(0)), scene.now);
    failed.not_before = Some(scene.now.steady + LAST_PAUSE);
    scene.set(-HOUR);
    assert!(!is_due(&failed, scene.now) && is_due(&failed, scene.pass(300)));
}

#[tokio::test]
async fn fault_80_clock_an_hour_ahead_renews_a_token_once() {
    let mut scene = Scene::at(0);
    let mut held = Held::of(Some(of_a_day(0)), scene.now);
    assert!(!is_due(&held, scene.set(HOUR)), "it is young");
    scene.pass(DAY as u64 / 2 - HOUR as u64);
    assert!(is_due(&held, scene.now) && !held.credential.is_over(scene.now.clock));
    held.not_before = Some(scene.now.steady + UNDER_WAY);
    // The member's clock was not changed.
    let made = scene.now.clock.as_second() - HOUR;
    let renewed = held.followed_by(Some(of_a_day(made)), scene.now);
    assert!(!is_due(&renewed, scene.pass(APART.as_secs())));
}

#[tokio::test]
async fn fault_80_clock_far_ahead_causes_no_renewal_storm() {
    let mut scene = Scene::at(HOUR);
    let of_ten_minutes =
        |second: i64| secret(&token(&json!({"sub": SUBJECT, "iat": second, "exp": second + 600})));
    let mut held = Held::of(Some(of_ten_minutes(0)), scene.now);
    let mut renewals = 0;
    for second in 0..120 {
        if is_due(&held, scene.now) {
            renewals += 1;
            held.not_before = Some(scene.now.steady + UNDER_WAY);
            held = held.followed_by(Some(of_ten_minutes(second)), scene.now);
        }
        scene.pass(1);
    }
    assert_eq!(renewals, 120 / APART.as_secs());
}

#[tokio::test]
async fn new_secret_after_a_failure_is_renewed_without_backoff() {
    let mut scene = Scene::at(900);
    let mut held = Held::of(Some(lasting()), scene.now);
    (held.failed, held.not_before) = (3, Some(scene.now.steady + LAST_PAUSE));
    assert!(!is_due(&held, scene.now));
    let other = secret(&token(&json!({"sub": SUBJECT, "iat": 0, "exp": 1001})));
    assert!(is_due(&held.followed_by(Some(other), scene.now), scene.pass(1)));
}

#[test]
fn member_without_a_credential_reports_its_enrollment() {
    let finding = |until: &str, why: Option<&str>| {
        let registered = crate::controllers::enrollment::tests::registered("m1", until);
        let now = Scene::at(0).now;
        let (member, manager) =
            (Held::of(registered.connection.clone(), now), Held::of(registered.manager.clone(), now));
        let known = Known {
            cluster: &"m1".parse().unwrap(),
            registered: &registered,
            member: &member,
            manager: &manager,
            verdict: None,
            not_enrolled: why,
            overdue: overdue(0.6),
            now: at(0),
        };
        let finding = known.finding().unwrap();
        (finding.reason(), finding.message().to_owned())
    };
    let (reason, said) = finding("1970-01-01T00:30:00Z", None);
    assert_eq!(reason, "EnrollmentOpen");
    assert!(
        said.contains("until 1970-01-01T00:30:00Z") && said.contains("kubectl mc join m1 --agent --enroll"),
        "{said}"
    );
    let (reason, said) = finding("1970-01-01T00:30:00Z", Some("the agent lies"));
    assert_eq!(
        (reason, said.as_str()),
        ("EnrollmentFailed", "the agent lies; it is tried again until 1970-01-01T00:30:00Z")
    );
    let (reason, said) = finding("1969-12-31T23:59:59Z", Some("the agent lies"));
    assert_eq!(reason, "EnrollmentExpired");
    assert!(said.contains("opens it again: kubectl mc join m1 --agent --enroll"), "{said}");
    for invalid in ["1970-01-01T02:00:00Z", "soon"] {
        let (reason, said) = finding(invalid, None);
        assert!(reason == "EnrollmentExpired" && said.contains("no time within the next hour"), "{said}");
    }
}
