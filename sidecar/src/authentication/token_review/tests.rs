use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::fake_host::host;

fn verdict(review: &Value) -> (u16, Value) {
    let status = match review["spec"]["token"].as_str() {
        Some("jane") => json!({"authenticated": true, "audiences": ["a"], "user": {
            "username": "jane", "uid": "7", "groups": ["dev"], "extra": {"Scopes": ["x"]},
        }}),
        Some("broken") => {
            return (500, json!({"kind": "Status", "status": "Failure", "code": 500, "message": "broken"}));
        }
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

#[tokio::test]
async fn a_token_is_the_user_that_the_host_says() {
    let (reviews, _) = reviews(&[]);
    let jane = reviews.authenticate("jane").await.unwrap();
    assert_eq!((jane.user.as_str(), jane.uid.as_deref()), ("jane", Some("7")));
    assert_eq!(jane.groups, ["dev", "system:authenticated"]);
    assert_eq!(jane.extra["scopes"], ["x"]);
}

#[tokio::test]
async fn verdicts_are_kept_accepted_and_refused_alike() {
    let (reviews, asked) = reviews(&[]);
    for _ in 0..3 {
        assert!(reviews.authenticate("jane").await.is_ok());
        assert!(matches!(reviews.authenticate("eve").await, Err(Error::Token)));
    }
    assert_eq!(asked(), 2);
}

#[tokio::test]
async fn equal_look_ups_are_joined() {
    let (reviews, asked) = reviews(&[]);
    let all = futures_util::future::join_all((0..20).map(|_| reviews.authenticate("jane"))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_review_accepts_nobody_and_is_not_kept() {
    let (reviews, asked) = reviews(&[]);
    assert!(matches!(reviews.authenticate("broken").await, Err(Error::Review(_))));
    let first = asked();
    assert!(matches!(reviews.authenticate("broken").await, Err(Error::Review(_))));
    assert!(asked() > first);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_fails_for_a_moment_is_asked_again() {
    let failed = AtomicBool::new(false);
    let (client, _) = host(move |review| match failed.swap(true, Ordering::SeqCst) {
        true => verdict(review),
        false => verdict(&json!({"spec": {"token": "broken"}})),
    });
    assert!(TokenReviews::new(client, Vec::new()).unwrap().authenticate("jane").await.is_ok());
}

#[tokio::test]
async fn a_token_for_another_audience_is_refused() {
    let (other, _) = reviews(&["b"]);
    assert!(matches!(other.authenticate("jane").await, Err(Error::Token)));
    let (ours, _) = reviews(&["b", "a"]);
    assert!(ours.authenticate("jane").await.is_ok());
}
