use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::host::fake::host;

fn map(entries: &[(&str, &str)]) -> ConfigMap {
    let data: Map<String, Value> =
        entries.iter().map(|(key, text)| ((*key).to_owned(), json!(text))).collect();
    serde_json::from_value(json!({"metadata": {"name": "m1.learnt", "resourceVersion": "7"}, "data": data}))
        .unwrap()
}

fn entry(user: &str, groups: &[&str], at: &str) -> String {
    json!({"user": user, "groups": groups, "at": at}).to_string()
}

fn now() -> Timestamp {
    "2026-01-02T00:00:00Z".parse().unwrap()
}

fn m1() -> ClusterName {
    "m1".parse().unwrap()
}

const TODAY: &str = "2026-01-01T12:00:00Z";

/// A host that authorizes only users of the group `in`, and the number of its reviews.
fn host_of_group() -> (kube::Client, Arc<AtomicUsize>) {
    host(|review| {
        let groups = review["spec"]["groups"].as_array().cloned().unwrap_or_default();
        (
            201,
            json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {},
                "status": {"allowed": groups.contains(&json!("in"))},
            }),
        )
    })
}

async fn verified(came: MemberUsers, entitled: &[Entitled]) -> (Vec<String>, Vec<String>, usize) {
    let (client, asked) = host_of_group();
    let verified = came
        .verified(&client, (&m1(), Origin::MemberCluster), entitled, Reviews::default(), now())
        .await
        .unwrap();
    let Verified { allowed, mut pruned, .. } = verified;
    pruned.sort();
    let mut users: Vec<_> = allowed.into_iter().map(|entry| entry.user).collect();
    users.sort();
    (users, pruned, asked.load(Ordering::SeqCst))
}

#[tokio::test]
async fn unauthorized_expired_and_invalid_entries_are_pruned() {
    let map = map(&[
        ("a", &entry("jane", &["in"], TODAY)),
        ("b", &entry("bob", &["out"], TODAY)),
        ("c", &entry("old", &["in"], "2025-12-31T00:00:00Z")),
        ("d", "no entry"),
    ]);
    let (allowed, pruned, asked) = verified(MemberUsers::of(&map), &[]).await;
    assert_eq!(
        (allowed, pruned),
        (vec!["jane".to_owned()], vec!["b".to_owned(), "c".to_owned(), "d".to_owned()])
    );
    assert_eq!(asked, 1 + 5, "once for who is in, with each verb for who is not");
}

#[tokio::test]
async fn fault_80_clock_change_of_an_hour_prunes_no_recent_user() {
    let map = map(&[
        ("a", &entry("ahead", &["in"], "2026-01-02T01:00:00Z")),
        ("b", &entry("behind", &["in"], "2026-01-01T23:00:00Z")),
    ]);
    let (allowed, pruned, _) = verified(MemberUsers::of(&map), &[]).await;
    assert_eq!((allowed, pruned), (vec!["ahead".to_owned(), "behind".to_owned()], Vec::new()));
}

#[tokio::test]
async fn users_of_bindings_and_admins_need_no_review() {
    let map = map(&[
        ("a", &entry("jane", &["dev"], TODAY)),
        ("b", &entry("system:serviceaccount:ns:robot", &["x"], TODAY)),
        ("c", &entry("root", &["system:masters"], TODAY)),
    ]);
    let because = Because::Binding { binding: Arc::from("b"), role: Arc::from("r") };
    let robot = Subject::ServiceAccount { namespace: "ns".to_owned(), name: "robot".to_owned() };
    let entitled = [(Subject::Group("dev".to_owned()), because.clone()), (robot, because)];
    let (allowed, pruned, asked) = verified(MemberUsers::of(&map), &entitled).await;
    assert_eq!((allowed.len(), pruned.len(), asked), (3, 0, 0));
}

#[tokio::test]
async fn most_recent_entries_are_kept_up_to_the_limit() {
    let entries: Vec<_> = (0..MAX_ENTRIES + 5)
        .map(|number| {
            let at = now() - jiff::SignedDuration::from_secs(i64::try_from(number).unwrap());
            (format!("{number:05}"), entry("jane", &["in"], &at.to_string()))
        })
        .collect();
    let entries: Vec<_> = entries.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
    let (allowed, pruned, _) = verified(MemberUsers::of(&map(&entries)), &[]).await;
    assert_eq!(allowed.len(), MAX_ENTRIES);
    assert_eq!(pruned, ["02000", "02001", "02002", "02003", "02004"]);
}

#[tokio::test]
async fn recorded_user_costs_no_review_of_earlier_users() {
    let (client, asked) = host_of_group();
    let (mut reviews, mut entries) = (Reviews::default(), Vec::new());
    for number in 0..100 {
        entries.push((format!("{number:05}"), entry(&format!("user-{number}"), &["in"], TODAY)));
        let data: Vec<_> = entries.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
        let users = MemberUsers::of(&map(&data));
        let verified =
            users.verified(&client, (&m1(), Origin::MemberCluster), &[], reviews, now()).await.unwrap();
        assert_eq!((verified.allowed.len(), verified.pruned.len()), (number + 1, 0));
        reviews = verified.reviews;
    }
    assert_eq!(asked.load(Ordering::SeqCst), 100);
}

#[tokio::test]
async fn review_covers_only_the_reviewed_user_with_its_groups() {
    let (client, asked) = host_of_group();
    let because = Because::Binding { binding: Arc::from("b"), role: Arc::from("r") };
    let entitled = [(Subject::Group("dev".to_owned()), because)];
    let before = map(&[("a", &entry("jane", &["in"], TODAY)), ("b", &entry("bob", &["dev"], TODAY))]);
    let users = MemberUsers::of(&before);
    let verified = users
        .verified(&client, (&m1(), Origin::MemberCluster), &entitled, Reviews::default(), now())
        .await
        .unwrap();
    let Verified { allowed, reviews, .. } = verified;
    assert_eq!((allowed.len(), asked.load(Ordering::SeqCst)), (2, 1));
    // The same keys: the host no longer authorizes bob through his group, and jane is in another
    // group.
    let after = map(&[("a", &entry("jane", &["out"], TODAY)), ("b", &entry("bob", &["dev"], TODAY))]);
    let verified = MemberUsers::of(&after)
        .verified(&client, (&m1(), Origin::MemberCluster), &[], reviews, now())
        .await
        .unwrap();
    assert_eq!((verified.allowed.len(), verified.pruned.len()), (0, 2));
}

#[test]
fn entries_come_from_the_config_map_of_the_member() {
    let mut users = ObservedUsers::default();
    assert!(!users.is_synced());
    users.take(watcher::Event::Init);
    assert_eq!(users.take(watcher::Event::InitApply(map(&[("a", "{}")]))), [m1()]);
    assert!(!users.is_synced());
    users.take(watcher::Event::InitDone);
    assert!(users.is_synced());
    assert_eq!(users.of(&m1()).entries.len(), 1);
    let mut other = map(&[]);
    other.metadata.name = Some("m1.other".to_owned());
    assert!(users.take(watcher::Event::Apply(other)).is_empty());
    assert_eq!(users.take(watcher::Event::Delete(map(&[]))), [m1()]);
    assert!(users.of(&m1()).entries.is_empty());
}

/// A grant in Karmada's API group gives access only to members of Karmada.
#[tokio::test]
async fn grant_in_the_group_of_a_hub_allows_users_of_its_members() {
    for (origin, allowed) in [(Origin::MemberCluster, 0), (Origin::Karmada, 1)] {
        let (client, _) = host(|review| {
            let group = &review["spec"]["resourceAttributes"]["group"];
            (201, json!({"spec": {}, "status": {"allowed": group == "cluster.karmada.io"}}))
        });
        let users = MemberUsers::of(&map(&[("a", &entry("jane", &[], TODAY))]));
        let verified = users.verified(&client, (&m1(), origin), &[], Reviews::default(), now()).await;
        assert_eq!(verified.unwrap().allowed.len(), allowed, "{origin}");
    }
}
