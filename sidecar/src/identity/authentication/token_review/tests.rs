use std::sync::atomic::{AtomicBool, Ordering};

use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::*;
use crate::host::fake::host;

const HERE: Caller = Caller::of_hash(1);
const ELSEWHERE: Caller = Caller::of_hash(2);

fn verdict(review: &Value) -> (u16, Value) {
    let status = match review["spec"]["token"].as_str() {
        Some("jane") => json!({"authenticated": true, "audiences": ["a"], "user": {
            "username": "jane", "uid": "7", "groups": ["dev"], "extra": {"Scopes": ["x"]},
        }}),
        Some("broken") => {
            return (500, json!({"kind": "Status", "status": "Failure", "code": 500, "message": "broken"}));
        }
        Some("named") => json!({"authenticated": false, "user": {"username": "jane"}}),
        _ => json!({"authenticated": false}),
    };
    (
        201,
        json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {}, "status": status}),
    )
}

fn reviews(audiences: &[&str]) -> (TokenReviews, impl Fn() -> usize) {
    let (client, asked) = host(verdict);
    let audiences = audiences.iter().map(|&a| a.to_owned()).collect();
    (TokenReviews::new(client, audiences).unwrap(), move || asked.load(Ordering::SeqCst))
}

/// The user of a token that is sent from address [`HERE`].
async fn user(reviews: &TokenReviews, token: &str) -> Result<Arc<Identity>, Error> {
    reviews.authenticate(token, HERE).await
}

#[tokio::test]
async fn token_authenticates_the_user_of_its_review() {
    let (reviews, _) = reviews(&[]);
    let jane = user(&reviews, "jane").await.unwrap();
    assert_eq!((jane.user.as_str(), jane.uid.as_deref()), ("jane", Some("7")));
    assert_eq!(jane.groups, ["dev", "system:authenticated"]);
    assert_eq!(jane.extra["scopes"], ["x"]);
}

#[tokio::test]
async fn cve_2023_48312_user_without_authentication_is_refused() {
    let (reviews, _) = reviews(&[]);
    assert!(matches!(user(&reviews, "named").await, Err(Error::Token)));
}

#[tokio::test]
async fn accepted_and_refused_verdicts_are_cached() {
    let (reviews, asked) = reviews(&[]);
    for _ in 0..3 {
        assert!(user(&reviews, "jane").await.is_ok());
        assert!(matches!(user(&reviews, "eve").await, Err(Error::Token)));
    }
    assert_eq!(asked(), 2);
}

#[tokio::test]
async fn concurrent_lookups_of_a_token_are_coalesced() {
    let (reviews, asked) = reviews(&[]);
    let all = futures_util::future::join_all((0..20).map(|_| user(&reviews, "jane"))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn fault_75_failed_token_review_is_refused_and_not_cached() {
    let (reviews, asked) = reviews(&[]);
    assert!(matches!(user(&reviews, "broken").await, Err(Error::Review)));
    let first = asked();
    assert!(matches!(user(&reviews, "broken").await, Err(Error::Review)));
    assert!(asked() > first);
}

#[tokio::test(start_paused = true)]
async fn transient_host_failure_is_retried() {
    let failed = AtomicBool::new(false);
    let (client, _) = host(move |review| match failed.swap(true, Ordering::SeqCst) {
        true => verdict(review),
        false => verdict(&json!({"spec": {"token": "broken"}})),
    });
    assert!(user(&TokenReviews::new(client, Vec::new()).unwrap(), "jane").await.is_ok());
}

#[tokio::test]
async fn token_for_another_audience_is_refused() {
    let (other, _) = reviews(&["b"]);
    assert!(matches!(user(&other, "jane").await, Err(Error::Token)));
    let (ours, _) = reviews(&["b", "a"]);
    assert!(user(&ours, "jane").await.is_ok());
}

#[tokio::test]
async fn accepted_audiences_are_part_of_the_review() {
    for (audiences, expected) in [(&[][..], Value::Null), (&["a", "b"], json!(["a", "b"]))] {
        let (send, specs) = std::sync::mpsc::channel();
        let (client, _) = host(move |review| {
            send.send(review["spec"].clone()).unwrap();
            verdict(review)
        });
        let audiences = audiences.iter().map(|&audience| audience.to_owned()).collect();
        let _ = user(&TokenReviews::new(client, audiences).unwrap(), "jane").await;
        assert_eq!(specs.recv().unwrap()["audiences"], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn expired_verdicts_are_forgotten() {
    let (reviews, _) = reviews(&[]);
    for token in ["jane", "made-up"] {
        let _ = user(&reviews, token).await;
    }
    reviews.forget_expired();
    assert_eq!(reviews.kept(), 2);
    tokio::time::advance(TTL).await;
    reviews.forget_expired();
    assert_eq!(reviews.kept(), 0);
}

#[tokio::test]
async fn reviews_and_lookups_in_the_cache_are_counted() {
    let mut registry = Registry::default();
    let (metrics, _) = ReviewMetrics::register(&mut registry);
    let reviews = reviews(&[]).0.counted(metrics, CacheMetrics::register(&mut registry));
    for token in ["jane", "jane", "broken"] {
        let _ = user(&reviews, token).await;
    }
    let text = crate::observe::metrics::text(&registry);
    for line in [
        r#"apiserver_delegated_authn_request_total{code="201"} 1"#,
        r#"authentication_token_cache_request_total{status="hit"} 1"#,
        r#"authentication_token_cache_request_total{status="miss"} 2"#,
        r#"authentication_token_cache_fetch_total{status="ok"} 1"#,
        r#"authentication_token_cache_fetch_total{status="error"} 1"#,
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

/// A host that takes a second for each review and accepts only jane's token.
fn slow_host() -> TokenReviews {
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| async move {
        use http_body_util::BodyExt;
        let body = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (code, answer) = verdict(&serde_json::from_slice(&body).unwrap());
        let body = kube::client::Body::from(answer.to_string().into_bytes());
        http::Response::builder().status(code).body(body).map_err(std::io::Error::other)
    });
    TokenReviews::new(kube::Client::new(service, "default"), Vec::new()).unwrap()
}

async fn flood(reviews: &TokenReviews, count: usize) -> Vec<Error> {
    let tokens: Vec<_> = (0..count).map(|n| format!("made-up-{n}")).collect();
    let asked = tokens.iter().map(|token| user(reviews, token));
    let answers = futures_util::future::join_all(asked).await;
    answers.into_iter().filter_map(Result::err).collect()
}

#[tokio::test(start_paused = true)]
async fn invalid_tokens_of_one_address_do_not_delay_another() {
    let reviews = slow_host();
    let polite = async {
        tokio::task::yield_now().await;
        let begun = tokio::time::Instant::now();
        reviews.authenticate("jane", ELSEWHERE).await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    };
    let (refused, ()) = tokio::join!(flood(&reviews, 15_000), polite);
    assert_eq!(refused.len(), 15_000);
    assert!(refused.iter().any(|error| matches!(error, Error::TooManyReviews)));
}

#[tokio::test(start_paused = true)]
async fn verdicts_are_cached_for_the_ttl() {
    for (ttl, kept) in [(Duration::ZERO, false), (Duration::from_secs(60), true)] {
        let (reviews, asked) = reviews(&[]);
        let reviews = reviews.with_ttl(ttl);
        for token in ["jane", "made-up"] {
            let _ = user(&reviews, token).await;
            tokio::time::advance(TTL).await;
            let before = asked();
            let _ = user(&reviews, token).await;
            assert_eq!(asked() == before, kept, "{ttl:?} {token}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_tokens_do_not_delay_accepted_tokens() {
    let reviews = slow_host();
    user(&reviews, "jane").await.unwrap();
    tokio::time::advance(TTL).await;
    let polite = async {
        tokio::task::yield_now().await;
        let begun = tokio::time::Instant::now();
        user(&reviews, "jane").await.unwrap();
        let took = begun.elapsed();
        assert!(took >= Duration::from_secs(1), "it was not reviewed again");
        assert!(took < Duration::from_secs(2), "{took:?}");
    };
    tokio::join!(flood(&reviews, 15_000), polite);
}
