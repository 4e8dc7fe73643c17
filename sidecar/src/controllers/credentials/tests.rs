use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kubectl_mc_api::MemberCluster;
use serde_json::json;

use super::token::tests::token;
use super::*;
use crate::controllers::health::probe::Verdict;

const SUBJECT: &str = "system:serviceaccount:kubectl-mc-system:kubectl-mc-impersonator";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn secret(token: &str) -> Arc<Secret> {
    let data: BTreeMap<_, _> = [("token".to_owned(), ByteString(token.as_bytes().to_vec()))].into();
    Arc::new(Secret { data: Some(data), ..Secret::default() })
}

/// Of a token that lasts from 0 to 1000.
fn lasting() -> Arc<Secret> {
    secret(&token(&json!({"sub": SUBJECT, "iat": 0, "exp": 1000})))
}

/// The finding of a member with these Secrets, that accepts what it is shown, at this time.
fn finding(
    connection: Option<Arc<Secret>>,
    manager: Option<Arc<Secret>>,
    verdict: Option<Verdict>,
    second: i64,
    trouble: Option<Trouble>,
) -> Option<(&'static str, String, bool)> {
    let (mut member, held) = (Held::of(connection.clone()), Held::of(manager.clone()));
    member.trouble = trouble;
    let cluster = crate::inventory::Cluster {
        name: "m1".parse().unwrap(),
        forwarded: Default::default(),
        upstream: upstream(),
        gone: Default::default(),
        in_flight: crate::limits::Bound::new(crate::limits::Size { places: 1, queued_per_caller: 0 }),
        managed: true,
    };
    let registered = Registered {
        member: Arc::new(MemberCluster::new("m1", Default::default())),
        connection,
        manager,
        way: Ok(Arc::new(cluster)),
    };
    let known = Known {
        cluster: &"m1".parse().unwrap(),
        registered: &registered,
        member: &member,
        manager: &held,
        verdict: verdict.as_ref(),
        now: at(second),
    };
    let finding = known.finding()?;
    Some((finding.reason(), finding.message().to_owned(), finding.is_warning()))
}

fn upstream() -> Arc<crate::upstream::Upstream> {
    crate::tls::install_provider();
    let text = |text: &str| ByteString(text.as_bytes().to_vec());
    let data = [
        ("server".to_owned(), text("https://203.0.113.7")),
        ("insecure-skip-tls-verify".to_owned(), text("true")),
        ("token".to_owned(), text("t")),
    ];
    let connection = crate::upstream::connection::Connection::parse(&data.into()).unwrap();
    Arc::new(crate::upstream::Upstream::new("m1".parse().unwrap(), connection, Default::default()).unwrap())
}

/// Reason and whether it is a warning, of a member that accepts.
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
async fn a_credential_is_valid_only_when_the_member_said_so() {
    assert_eq!(finding(Some(lasting()), Some(lasting()), None, 1, None), None);
    assert_eq!(accepted(lasting(), Some(lasting()), 1, None), ("Accepted", false));
    let refused = finding(Some(lasting()), Some(lasting()), Some(Verdict::Refused), 1, None).unwrap();
    assert_eq!((refused.0, refused.2), ("Refused", true));
}

#[tokio::test]
async fn what_there_is_not_is_told_before_anybody_is_asked() {
    assert_eq!(finding(None, None, None, 1, None).unwrap().0, "NoSecret");
    assert_eq!(finding(Some(secret("")), None, None, 1, None).unwrap().0, "NoCredential");
    // The member may have been asked before it expired.
    let over = finding(Some(lasting()), None, Some(Verdict::Accepted), 1000, None).unwrap();
    assert_eq!((over.0, over.2), ("Expired", true));
    assert!(over.1.contains("m1.manager"), "{}", over.1);
}

#[tokio::test]
async fn who_would_not_renew_in_time_is_told_with_the_reason() {
    let eternal = secret(&token(&json!({"sub": SUBJECT})));
    let expired = secret(&token(&json!({"sub": SUBJECT, "iat": 0, "exp": 5})));
    let trouble = || Some(Trouble { reason: "ManagerRefused", message: "401".to_owned() });
    assert_eq!(accepted(lasting(), None, 10, None), ("NoManager", false));
    assert_eq!(accepted(lasting(), None, 900, None), ("NoManager", true));
    assert_eq!(accepted(eternal.clone(), None, 10, None), ("NoExpiry", true));
    assert_eq!(accepted(secret("opaque"), Some(lasting()), 10, None), ("NoExpiry", true));
    assert_eq!(accepted(lasting(), Some(expired), 10, None), ("ManagerExpired", true));
    assert_eq!(accepted(lasting(), Some(lasting()), 700, trouble()), ("ManagerRefused", true));
    assert_eq!(accepted(lasting(), Some(lasting()), 899, None), ("Accepted", false));
    assert_eq!(accepted(lasting(), Some(lasting()), 900, trouble()), ("RenewalOverdue", true));
    assert_eq!(accepted(lasting(), Some(eternal), 10, None), ("Accepted", false));
}

#[tokio::test]
async fn no_message_holds_the_token() {
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

#[test]
fn a_token_is_due_at_its_part_and_not_while_it_is_renewed() {
    let mut held = Held::of(Some(lasting()));
    assert!(held.due(0.5, at(440)).is_none());
    assert!(held.due(0.5, at(501)).is_some());
    held.not_before = Some(at(560));
    assert!(held.due(0.5, at(559)).is_none());
    assert!(held.due(0.5, at(560)).is_some());
    assert!(Held::of(Some(secret("opaque"))).due(0.5, at(10_000)).is_none());
}
