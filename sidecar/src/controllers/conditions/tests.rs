use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use tokio::time::sleep;

use super::*;
use crate::host::fake::host;

const OWN: &str = "kubectl-mc-system";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn registered(status: Option<MemberClusterStatus>, secret: bool) -> Registered {
    let mut member = MemberCluster::new("m1", Default::default());
    member.status = status;
    member.metadata.generation = Some(3);
    let secret = secret.then(|| {
        let server = ("server".to_owned(), ByteString(b"https://203.0.113.7:6443".to_vec()));
        Arc::new(Secret { data: Some([server].into()), ..Secret::default() })
    });
    Registered {
        member: Arc::new(member),
        origin: Default::default(),
        is_read: true,
        in_two: false,
        connection: secret,
        manager: None,
        hub_account: None,
        way: Err(Arc::from("")),
    }
}

/// The status that is written for the findings, if any.
fn written(known: &mut Known, registered: &Registered, now: Timestamp) -> Option<MemberClusterStatus> {
    known.settle(OWN, registered);
    known.status(OWN, registered, &registered.member, now)
}

fn condition<'a>(status: &'a MemberClusterStatus, type_: &str) -> (&'a str, &'a str, i64) {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    (&found.status, &found.reason, found.last_transition_time.0.as_second() - 1_000_000)
}

fn up() -> Known {
    let mut known = Known::default();
    known.found(Aspect::Reachable, Finding::yes("Answers", "it answers"));
    known.found(Aspect::CredentialValid, Finding::yes("Accepted", "accepted"));
    known.seen(at(0), Some("v1.36.3".to_owned()));
    known
}

#[test]
fn findings_are_written_once() {
    let mut known = up();
    let status = written(&mut known, &registered(None, true), at(1)).unwrap();
    assert_eq!(status.server.as_deref(), Some("https://203.0.113.7:6443"));
    assert_eq!(status.version.as_deref(), Some("v1.36.3"));
    assert_eq!(status.namespace.as_deref(), Some(OWN));
    assert_eq!(status.last_seen, Some(Time(at(0))));
    assert_eq!(condition(&status, "Ready"), ("True", "Ready", 1));
    assert_eq!(status.conditions[0].observed_generation, Some(3));
    assert_eq!(written(&mut known, &registered(Some(status), true), at(2)), None);
}

#[test]
fn healthy_member_status_is_written_every_five_minutes() {
    let mut known = up();
    let status = written(&mut known, &registered(None, true), at(1)).unwrap();
    let registered = registered(Some(status), true);
    for second in (10..300).step_by(10) {
        known.seen(at(second), Some("v1.36.3".to_owned()));
        assert_eq!(written(&mut known, &registered, at(second)), None, "{second}");
    }
    known.seen(at(300), None);
    let status = written(&mut known, &registered, at(300)).unwrap();
    assert_eq!(status.last_seen, Some(Time(at(300))));
    assert_eq!(condition(&status, "Reachable"), ("True", "Answers", 1));
}

#[test]
fn name_conflict_is_shown_while_it_lasts() {
    let mut known = up();
    known.found(Aspect::UniqueName, Finding::no("Conflict", "two"));
    let in_two = |status| Registered { in_two: true, ..registered(status, true) };
    let status = written(&mut known, &in_two(None), at(1)).unwrap();
    assert_eq!(condition(&status, "UniqueName"), ("False", "Conflict", 1));
    assert_eq!(condition(&status, "Ready"), ("True", "Conflict", 1));
    let status = written(&mut known, &registered(Some(status), true), at(2)).unwrap();
    assert!(status.conditions.iter().all(|condition| condition.type_ != "UniqueName"));
    assert_eq!(condition(&status, "Ready"), ("True", "Ready", 1));
}

/// Two installations on one host, of which one reads Karmada's inventory, do not overwrite each other.
#[test]
fn karmada_member_is_left_to_the_sidecar_with_karmada() {
    let mut known = up();
    let of_karmada = |status, is_read| Registered {
        origin: kubectl_mc_api::Origin::Karmada,
        is_read,
        ..registered(status, false)
    };
    let status = written(&mut known, &of_karmada(None, true), at(1)).unwrap();
    assert_eq!(status.namespace.as_deref(), Some(OWN));
    let others = MemberClusterStatus { namespace: Some("other".to_owned()), ..status };
    assert_eq!(written(&mut up(), &of_karmada(Some(others), false), at(2)), None);
}

#[test]
fn fault_80_clock_change_keeps_last_probe_times() {
    for hour in [-3600, 3600] {
        let mut known = up();
        let before = registered(written(&mut known, &registered(None, true), at(1)), true);
        known.seen(at(hour), None);
        let status = written(&mut known, &before, at(hour)).unwrap();
        assert_eq!(status.last_seen, Some(Time(at(hour))));
        // The interval between writes stays the same.
        known.seen(at(hour + 10), None);
        assert_eq!(written(&mut known, &registered(Some(status), true), at(hour + 10)), None);
    }
}

#[test]
fn status_writes_of_members_spread_out() {
    let written_again = |part: f64| {
        let mut known = Known::new(part);
        known.seen(at(0), None);
        let status = written(&mut known, &registered(None, true), at(1)).unwrap();
        let registered = registered(Some(status), true);
        (10..).step_by(10).find(|&second| {
            known.seen(at(second), None);
            written(&mut known, &registered, at(second)).is_some()
        })
    };
    assert_eq!(
        (written_again(0.0), written_again(0.5), written_again(1.0)),
        (Some(300), Some(330), Some(360))
    );
}

#[test]
fn condition_with_a_new_reason_keeps_its_transition_time() {
    let mut known = up();
    let status = written(&mut known, &registered(None, true), at(1)).unwrap();
    known.found(Aspect::Reachable, Finding::no("Refused", "connection refused"));
    let status = written(&mut known, &registered(Some(status), true), at(20)).unwrap();
    assert_eq!(condition(&status, "Reachable"), ("False", "Refused", 20));
    assert_eq!(condition(&status, "Ready"), ("False", "Refused", 20));
    known.found(Aspect::Reachable, Finding::no("Timeout", "silent"));
    let status = written(&mut known, &registered(Some(status), true), at(40)).unwrap();
    assert_eq!(condition(&status, "Reachable"), ("False", "Timeout", 20));
}

#[test]
fn member_is_ready_when_reachable_and_credential_is_valid() {
    let ready = |findings: &[(Aspect, Finding)]| {
        let mut known = Known::default();
        findings.iter().for_each(|(aspect, finding)| known.found(*aspect, finding.clone()));
        let status = written(&mut known, &registered(None, true), at(0)).unwrap();
        let (holds, reason, _) = condition(&status, "Ready");
        (holds.to_owned(), reason.to_owned())
    };
    let is = |holds: &str, reason: &str| (holds.to_owned(), reason.to_owned());
    let reached = (Aspect::Reachable, Finding::yes("Answers", ""));
    let valid = (Aspect::CredentialValid, Finding::yes("Accepted", ""));
    let refused = (Aspect::CredentialValid, Finding::no("Unauthorized", "401"));
    let behind = (Aspect::AuthSynced, Finding::no("Forbidden", "not bound"));
    let unmanaged = (Aspect::AuthSynced, Finding::unknown("NoManager", ""));
    assert_eq!(ready(&[]), is("Unknown", "NotProbed"));
    assert_eq!(ready(std::slice::from_ref(&reached)), is("Unknown", "NotProbed"));
    assert_eq!(ready(&[reached.clone(), refused]), is("False", "Unauthorized"));
    assert_eq!(ready(&[reached.clone(), valid.clone()]), is("True", "Ready"));
    assert_eq!(ready(&[reached.clone(), valid.clone(), unmanaged]), is("True", "Ready"));
    assert_eq!(ready(&[reached, valid, behind]), is("True", "AuthNotSynced"));
}

#[test]
fn condition_without_a_new_finding_stays() {
    let mut before = up();
    before.found(Aspect::AuthSynced, Finding::yes("Synced", "3 subjects"));
    let status = written(&mut before, &registered(None, true), at(0)).unwrap();
    let mut known = up();
    known.found(Aspect::Reachable, Finding::no("Refused", ""));
    let status = written(&mut known, &registered(Some(status), true), at(9)).unwrap();
    assert_eq!(condition(&status, "AuthSynced"), ("True", "Synced", 0));
}

#[test]
fn secret_in_another_namespace_is_left_to_its_sidecar() {
    let theirs = || Some(MemberClusterStatus { namespace: Some("theirs".to_owned()), ..Default::default() });
    assert_eq!(written(&mut up(), &registered(theirs(), false), at(0)), None);
    // The Secret was moved to this namespace.
    let mut known = up();
    let taken = written(&mut known, &registered(theirs(), true), at(0)).unwrap();
    assert_eq!(taken.namespace.as_deref(), Some(OWN));
    assert_eq!(written(&mut known, &registered(Some(taken), true), at(1)), None);
    // If the other sidecar takes the member back, both have a Secret. This sidecar stops writing.
    assert_eq!(written(&mut known, &registered(theirs(), true), at(2)), None);
}

#[test]
fn deleted_secret_frees_the_member_for_another_sidecar() {
    let mut known = up();
    let ours = written(&mut known, &registered(None, true), at(0)).unwrap();
    let free = written(&mut known, &registered(Some(ours), false), at(1)).unwrap();
    assert_eq!((free.namespace, free.server), (None, None));
}

#[test]
fn long_message_is_truncated() {
    let finding = Finding::no("Refused", "é".repeat(5_000));
    assert!(finding.message().len() <= 1000);
}

/// A member without a status, and the writer of its status, with a host that counts requests.
struct New {
    conditions: Conditions,
    sent: Arc<AtomicUsize>,
    _told: watch::Sender<Arc<Fleet>>,
}

impl New {
    fn awaiting(aspects: &[Aspect]) -> Self {
        Self::at_a_host(aspects, 200)
    }

    /// The host answers Events with this status.
    fn at_a_host(aspects: &[Aspect], of_events: u16) -> Self {
        let member = serde_json::to_value(MemberCluster::new("m1", Default::default())).unwrap();
        let (host, sent) = host(move |body| match body["kind"] == "Event" || body["type"].is_string() {
            true => (of_events, body.clone()),
            false => (200, member.clone()),
        });
        let fleet = Fleet::from([(name(), registered(None, true))]);
        let (told, fleet) = watch::channel(Arc::new(fleet));
        let awaited = Awaited { aspects: aspects.into(), patience: Duration::from_secs(10) };
        let (conditions, writer) = Conditions::new(host, OWN, fleet, awaited);
        tokio::spawn(writer.run());
        Self { conditions, sent, _told: told }
    }

    fn found(&self, aspect: Aspect, finding: Finding) {
        self.conditions.set(&name(), aspect, finding);
    }

    /// The number of requests that the host has received after this time.
    async fn sent_after(&self, while_: Duration) -> usize {
        sleep(while_).await;
        self.sent.load(Ordering::SeqCst)
    }
}

fn name() -> ClusterName {
    "m1".parse().unwrap()
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn new_healthy_member_needs_one_write() {
    let new = New::awaiting(&TOLD_OF_ALL);
    new.found(Aspect::AuthSynced, Finding::yes("Synced", ""));
    assert_eq!(new.sent_after(SECOND).await, 0);
    new.found(Aspect::Reachable, Finding::yes("Answers", ""));
    new.conditions.seen(&name(), Some("v1.36.3".to_owned()));
    assert_eq!(new.sent_after(SECOND).await, 0);
    new.found(Aspect::CredentialValid, Finding::yes("Accepted", ""));
    // The status is written without an Event, because nothing has changed.
    assert_eq!(new.sent_after(SECOND).await, 1);
    assert_eq!(new.sent_after(60 * SECOND).await, 1);
}

#[tokio::test(start_paused = true)]
async fn first_status_waits_only_until_the_timeout() {
    let new = New::awaiting(&TOLD_OF_ALL);
    new.found(Aspect::AuthSynced, Finding::yes("Synced", ""));
    assert_eq!(new.sent_after(9 * SECOND).await, 0);
    assert_eq!(new.sent_after(2 * SECOND).await, 1);
    // Aspects that no controller reports are not awaited.
    let new = New::awaiting(&[Aspect::AuthSynced]);
    new.found(Aspect::AuthSynced, Finding::yes("Synced", ""));
    assert_eq!(new.sent_after(SECOND).await, 1);
}

#[tokio::test(start_paused = true)]
async fn unreachable_new_member_is_reported_at_once_with_event() {
    let new = New::awaiting(&TOLD_OF_ALL);
    new.found(Aspect::Reachable, Finding::no("ConnectionRefused", ""));
    assert_eq!(new.sent_after(SECOND).await, 2);
}

/// Large hosts keep Events in a separate etcd.
#[tokio::test(start_paused = true)]
async fn host_that_takes_no_events_delays_no_status() {
    let new = New::at_a_host(&TOLD_OF_ALL, 0);
    new.found(Aspect::Reachable, Finding::no("ConnectionRefused", ""));
    assert_eq!(new.sent_after(SECOND).await, 2);
    new.found(Aspect::Reachable, Finding::no("NoAnswer", ""));
    assert_eq!(new.sent_after(SECOND).await, 3);
}

/// The aspects of every member. Only members with an agent have `Connected`.
const TOLD_OF_ALL: [Aspect; 3] = [Aspect::Reachable, Aspect::CredentialValid, Aspect::AuthSynced];
