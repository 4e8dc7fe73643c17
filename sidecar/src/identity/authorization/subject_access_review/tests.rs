use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::head::request_info::RequestInfo;
use crate::host::fake::host;
use crate::identity::authorization::{self, Authorizer};
use crate::limits::in_flight::{Level, Limits};

const ONE: Size = Size::new(1, 0);

const JANE: Asker = Asker::Caller(Caller::of_hash(1));
const BOB: Asker = Asker::Caller(Caller::of_hash(2));

fn decision(review: &Value) -> (u16, Value) {
    let spec = &review["spec"];
    if spec["user"] == "broken" {
        return (500, json!({"kind": "Status", "status": "Failure", "code": 500, "message": "broken"}));
    }
    let attributes = &spec["resourceAttributes"];
    let allowed = spec["user"] == "jane"
        && spec["groups"][0] == "dev"
        && attributes["verb"] == "impersonate"
        && attributes["name"] == "bob"
        && attributes["resource"] == "users";
    let status = json!({"allowed": allowed, "reason": "because"});
    (
        201,
        json!({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": {}, "status": status}),
    )
}

fn reviews() -> (SubjectAccessReviews, impl Fn() -> usize) {
    let (client, asked) = host(decision);
    (SubjectAccessReviews::new(client, Ttl::default(), None), move || asked.load(Ordering::SeqCst))
}

fn user(name: &str) -> Arc<Identity> {
    Arc::new(Identity { user: name.to_owned(), groups: vec!["dev".to_owned()], ..Identity::default() })
}

fn users(name: &str) -> Attributes {
    Attributes::impersonate("", "users", "", "", name)
}

#[tokio::test]
async fn decision_is_cached_for_equal_reviews_only() {
    let (reviews, asked) = reviews();
    for _ in 0..3 {
        assert!(reviews.decide(&user("jane"), &users("bob"), JANE).await.unwrap().allowed);
        let denied = reviews.decide(&user("jane"), &users("root"), JANE).await.unwrap();
        assert!(!denied.allowed && &*denied.reason == "because");
        assert!(!reviews.decide(&user("eve"), &users("bob"), JANE).await.unwrap().allowed);
    }
    assert_eq!(asked(), 3);
}

#[test]
fn review_has_the_whole_identity() {
    let jane = Identity {
        user: "jane".to_owned(),
        uid: Some("7".to_owned()),
        groups: vec!["dev".to_owned()],
        extra: [("scopes".to_owned(), vec!["a".to_owned(), "b".to_owned()])].into(),
    };
    let identity_of = |identity: &Identity| {
        let mut spec = serde_json::to_value(spec(identity, &users("bob"))).unwrap();
        spec.as_object_mut().unwrap().remove("resourceAttributes");
        spec
    };
    let expected = json!({"user": "jane", "uid": "7", "groups": ["dev"], "extra": {"scopes": ["a", "b"]}});
    assert_eq!(identity_of(&jane), expected);
    // Missing parts of a caller's identity are omitted, and not sent as empty values.
    let bare = Identity { user: "x".to_owned(), ..Identity::default() };
    assert_eq!(identity_of(&bare), json!({"user": "x"}));
}

#[test]
fn size_is_that_of_all_texts() {
    let x = |length: usize| "x".repeat(length);
    let resource = Attributes::Resource {
        verb: "get",
        group: "x",
        resource: "xx",
        subresource: x(4).into(),
        namespace: x(8).into(),
        name: x(16),
    };
    assert_eq!(resource.size(), 31);
}

#[tokio::test]
async fn only_a_large_review_is_not_cached() {
    for (length, is_kept) in [(200, true), (MAX_KEPT_SIZE - 10, true), (MAX_KEPT_SIZE, false)] {
        let (reviews, asked) = reviews();
        for _ in 0..2 {
            reviews
                .decide(&user("j"), &Attributes::impersonate("", "", "", "", &"b".repeat(length)), JANE)
                .await
                .unwrap();
        }
        assert_eq!(asked() == 1, is_kept, "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn expired_decisions_are_forgotten() {
    let (reviews, _) = reviews();
    reviews.decide(&user("jane"), &users("bob"), JANE).await.unwrap();
    for name in ["bob", "eve"] {
        reviews.decide(&user("jane"), &users(name), Asker::Listing(Caller::of_hash(1))).await.unwrap();
    }
    reviews.forget_expired();
    assert_eq!(reviews.kept(), [1, 2]);
    tokio::time::advance(TTL).await;
    reviews.forget_expired();
    assert_eq!(reviews.kept(), [0, 0]);
}

#[tokio::test]
async fn access_reviews_are_counted() {
    let mut registry = Registry::default();
    let (_, metrics) = ReviewMetrics::register(&mut registry);
    let reviews = reviews().0.counted(metrics);
    reviews.decide(&user("jane"), &users("bob"), JANE).await.unwrap();
    let text = crate::observe::metrics::text(&registry);
    assert!(text.contains(r#"apiserver_delegated_authz_request_total{code="201"} 1"#), "{text}");
}

#[tokio::test(start_paused = true)]
async fn allowed_and_denied_decisions_have_their_own_ttl() {
    const MINUTE: Duration = Duration::from_secs(60);
    for (allowed, denied, kept) in [
        (TTL, TTL, [true, true, false, false]),
        (MINUTE, Duration::ZERO, [true, false, true, false]),
        (Duration::ZERO, MINUTE, [false, true, false, true]),
    ] {
        let (client, asked) = host(decision);
        let reviews = SubjectAccessReviews::new(client, Ttl { allowed, denied }, None);
        let asked = || asked.load(Ordering::SeqCst);
        let jane = user("jane");
        let mut is_kept = Vec::new();
        for time in [Duration::from_secs(1), TTL] {
            for name in ["bob", "root"] {
                let _ = reviews.decide(&jane, &users(name), JANE).await;
            }
            tokio::time::advance(time).await;
            for name in ["bob", "root"] {
                let before = asked();
                let decision = reviews.decide(&jane, &users(name), JANE).await.unwrap();
                assert_eq!(decision.allowed, name == "bob");
                is_kept.push(asked() == before);
            }
        }
        assert_eq!(is_kept, kept, "{allowed:?} {denied:?}");
    }
}

#[tokio::test]
async fn concurrent_equal_reviews_are_coalesced() {
    let (reviews, asked) = reviews();
    let (jane, attributes) = (user("jane"), users("bob"));
    let all = futures_util::future::join_all((0..20).map(|_| reviews.decide(&jane, &attributes, JANE))).await;
    assert!(all.iter().all(|decision| decision.as_ref().unwrap().allowed));
    assert_eq!(asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn fault_75_failed_access_review_is_an_error_and_not_cached() {
    let (reviews, asked) = reviews();
    assert!(reviews.decide(&user("broken"), &users("bob"), JANE).await.is_err());
    let first = asked();
    assert!(reviews.decide(&user("broken"), &users("bob"), JANE).await.is_err());
    assert!(asked() > first);
}

#[tokio::test(start_paused = true)]
async fn transient_host_failure_is_retried() {
    let failed = AtomicBool::new(false);
    let (client, _) = host(move |review| match failed.swap(true, Ordering::SeqCst) {
        true => decision(review),
        false => decision(&json!({"spec": {"user": "broken"}})),
    });
    let decided = SubjectAccessReviews::new(client, Ttl::default(), None)
        .decide(&user("jane"), &users("bob"), JANE)
        .await;
    assert!(decided.unwrap().allowed);
}

#[tokio::test]
async fn oversized_identity_is_reviewed_and_not_cached() {
    let (reviews, asked) = reviews();
    let monster = Arc::new(Identity { groups: vec!["g".repeat(10_000)], ..(*user("jane")).clone() });
    for _ in 0..2 {
        assert!(!reviews.decide(&monster, &users("bob"), JANE).await.unwrap().allowed);
    }
    assert_eq!(asked(), 2);
}

#[test]
fn review_names_the_version_that_an_apiserver_names() {
    for (group, version) in [
        ("", None),
        ("authentication.k8s.io", Some("v1")),
        ("proxy.kubectl-mc.dev", Some("v1alpha1")),
        ("unknown.io", None),
    ] {
        let attributes = Attributes::impersonate(group, "uids", "", "", "7");
        let asked = spec(&user("jane"), &attributes).resource_attributes.unwrap();
        assert_eq!(asked.version.as_deref(), version, "{group:?}");
    }
}

/// A host that takes nine seconds for each review, and the maximum number of concurrent reviews that it
/// received.
fn slow_host() -> (kube::Client, Arc<AtomicUsize>) {
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let greatest = most.clone();
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let (open, most) = (open.clone(), most.clone());
        async move {
            most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(9)).await;
            open.fetch_sub(1, Ordering::SeqCst);
            let (code, answer) = decision(&json!({"spec": {"user": "jane", "groups": ["dev"],
                "resourceAttributes": {"verb": "impersonate", "name": "bob", "resource": "users"}}}));
            let body = kube::client::Body::from(answer.to_string().into_bytes());
            http::Response::builder().status(code).body(body).map_err(std::io::Error::other)
        }
    });
    (kube::Client::new(service, "default"), greatest)
}

/// Sends this many different reviews at once, and returns the number of decisions.
async fn flood(reviews: &SubjectAccessReviews, count: usize, asker: Asker) -> usize {
    let identities: Vec<_> = (0..count).map(|n| user(&format!("{asker:?}-{n}"))).collect();
    let attributes = users("bob");
    let asked = identities.iter().map(|identity| reviews.decide(identity, &attributes, asker));
    let decisions = futures_util::future::join_all(asked).await;
    let refused = decisions.iter().flat_map(|decision| decision.as_ref().err());
    assert!(refused.into_iter().all(|error| matches!(**error, Error::TooMany)));
    decisions.iter().filter(|decision| decision.is_ok()).count()
}

#[tokio::test(start_paused = true)]
async fn fault_76_concurrent_reviews_of_a_slow_host_are_limited() {
    let (client, most) = slow_host();
    let reviews = SubjectAccessReviews::new(client, Ttl::default(), None);
    let (jane, bob, renewals) = tokio::join!(
        flood(&reviews, MAX_OF_CALLERS, JANE),
        flood(&reviews, MAX_OF_CALLERS, BOB),
        flood(&reviews, MAX_OF_RENEWALS, Asker::Renewal),
    );
    // Some capacity stays free for other callers.
    let callers = jane + bob;
    assert!((MAX_OF_CALLERS * 3 / 4..MAX_OF_CALLERS).contains(&callers), "{callers}");
    assert_eq!(renewals, MAX_OF_RENEWALS);
    assert_eq!(most.load(Ordering::SeqCst), callers + MAX_OF_RENEWALS);
}

#[tokio::test(start_paused = true)]
async fn fault_76_flood_of_one_caller_does_not_delay_others() {
    let reviews = SubjectAccessReviews::new(slow_host().0, Ttl::default(), None);
    let others = async {
        tokio::task::yield_now().await;
        let begun = Instant::now();
        let (bob, renewal) = tokio::join!(flood(&reviews, 1, BOB), flood(&reviews, 1, Asker::Renewal));
        assert_eq!((bob, renewal), (1, 1));
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    };
    let (flooder, ()) = tokio::join!(flood(&reviews, 14_400, JANE), others);
    assert_eq!(flooder, MAX_OF_CALLERS - MAX_OF_CALLERS / 4);
}

#[tokio::test(start_paused = true)]
async fn fault_76_flood_of_one_priority_level_does_not_delay_others() {
    let reviews = SubjectAccessReviews::new(slow_host().0, Ttl::default(), Some(Shares::default()));
    let asker = |level, key: usize| Asker::Caller(Limits::new(ONE, ONE, 0, 0, 0).caller(level, key));
    let crowd = (0..200).map(|key| flood(&reviews, 3, asker(Level::Interactive, key)));
    let others = async {
        tokio::task::yield_now().await;
        let asked = [Level::System, Level::WorkloadHigh, Level::CatchAll].map(|level| asker(level, 0));
        let asked = futures_util::future::join_all(asked.map(|asker| flood(&reviews, 4, asker))).await;
        assert_eq!(asked, [4, 4, 4]);
    };
    let (crowd, ()) = tokio::join!(futures_util::future::join_all(crowd), others);
    assert_eq!(crowd.into_iter().sum::<usize>(), 100);
}

#[tokio::test(start_paused = true)]
async fn fault_76_lists_do_not_delay_reviews_of_other_requests() {
    let (client, most) = slow_host();
    let reviews = SubjectAccessReviews::new(client, Ttl::default(), None);
    let others = async {
        tokio::task::yield_now().await;
        let begun = Instant::now();
        let asked = (flood(&reviews, 1, JANE), flood(&reviews, 1, BOB), flood(&reviews, 1, Asker::Renewal));
        assert_eq!(tokio::join!(asked.0, asked.1, asked.2), (1, 1, 1));
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    };
    let listing = |caller| Asker::Listing(Caller::of_hash(caller));
    let lists = (flood(&reviews, 200, listing(1)), flood(&reviews, 200, listing(2)));
    let (one, two, ()) = tokio::join!(lists.0, lists.1, others);
    assert!(one > 0 && two > 0, "{one} {two}");
    assert!(most.load(Ordering::SeqCst) <= MAX_OF_LISTINGS + 3);
}

#[tokio::test(start_paused = true)]
async fn lists_evict_no_decision_of_other_requests() {
    let (reviews, asked) = reviews();
    let (jane, listing) = (user("jane"), Asker::Listing(Caller::of_hash(1)));
    reviews.decide(&jane, &users("bob"), JANE).await.unwrap();
    for number in 0..=MAX_DECISIONS {
        reviews.decide(&jane, &users(&number.to_string()), listing).await.unwrap();
    }
    let before = asked();
    reviews.decide(&jane, &users("bob"), JANE).await.unwrap();
    assert_eq!(asked(), before);
}

#[tokio::test(start_paused = true)]
async fn overload_and_host_failure_are_different_errors() {
    let identities: Vec<_> = (0..MAX_OF_CALLERS).map(|n| user(&format!("user-{n}"))).collect();
    let (busy, attributes) = (Authorizer::new(slow_host().0), users("bob"));
    let asked = identities.iter().map(|identity| busy.check(identity, &attributes, JANE));
    let answers = futures_util::future::join_all(asked).await;
    let refused: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), MAX_OF_CALLERS / 4);
    assert!(refused.iter().all(|error| matches!(error, authorization::Error::TooManyReviews)), "{refused:?}");
    let (client, _) = host(|_| (400, json!({"kind": "Status", "status": "Failure", "code": 400})));
    let failed = Authorizer::new(client).check(&identities[0], &attributes, JANE).await;
    assert!(matches!(failed, Err(authorization::Error::Review)), "{failed:?}");
}

#[tokio::test]
async fn permit_has_the_authorized_identity() {
    let (client, _) = host(|_| (201, json!({"metadata": {}, "spec": {}, "status": {"allowed": true}})));
    let uri = format!("{}/m1/proxy/api", kubectl_mc_api::path::CLUSTERS_PATH);
    let request = http::Request::builder().uri(uri).header("host", "h").body(()).unwrap();
    let info = RequestInfo::parse(&request).unwrap();
    let allowed = Authorizer::new(client).authorize(user("jane").into(), Caller::of_hash(1), &info).await;
    assert_eq!(allowed.unwrap().identity().user, "jane");
}
