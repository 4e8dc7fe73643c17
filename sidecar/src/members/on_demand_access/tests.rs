use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tokio::time::Instant;

use super::*;
use crate::host::fake::host;
use crate::members::cluster::tests;
use crate::members::waiter_limit::MAX_WAITING;

#[test]
fn key_depends_on_the_user_and_the_set_of_groups() {
    let of = |user: &str, groups: &[&str]| {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        key(&Identity { user: user.to_owned(), groups, ..Identity::default() })
    };
    assert_eq!(of("jane", &["a", "b"]), of("jane", &["b", "a"]));
    assert_ne!(of("jane", &["a", "b"]), of("jane", &["a"]));
    assert_ne!(of("jane", &["a", "b"]), of("jane", &["ab"]));
    assert_ne!(of("jane", &[]), of("bob", &[]));
    let key = of("jané o'neill", &["küche"]);
    assert!(key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
}

#[test]
fn only_users_groups_and_accounts_are_grantable() {
    assert!(is_grantable(&Attributes::impersonate("", "users", "", "", "jane")));
    assert!(is_grantable(&Attributes::impersonate("", "groups", "", "", "dev")));
    assert!(is_grantable(&Attributes::impersonate("", "serviceaccounts", "", "ns", "n")));
    assert!(!is_grantable(&Attributes::impersonate("authentication.k8s.io", "uids", "", "", "1")));
}

#[test]
fn only_refusals_are_cached() {
    for (ended, kept) in [
        (Outcome::Late, true),
        (Outcome::Granted, false),
        (Outcome::Busy, false),
        (Outcome::NotGrantable, false),
    ] {
        assert_eq!(is_kept(&Answer { outcome: ended, lacking: None }), kept, "{ended:?}");
    }
}

/// A managed member at a closed port, so that no right is ever granted.
fn cluster() -> Cluster {
    tests::cluster(tests::upstream())
}

/// On-demand access with a host that accepts every write, and the number of writes.
fn on_demand_access() -> (OnDemandAccess, Arc<AtomicUsize>) {
    let (client, written) = host(|_| (200, json!({"metadata": {"name": "m1.learnt"}})));
    (OnDemandAccess::new(client, "ns"), written)
}

/// A user with a certificate of this number.
fn user(name: &str, groups: &[&str], certificate: usize) -> Arc<Identity> {
    let groups = groups.iter().map(|&group| group.to_owned()).collect();
    let id = vec![format!("X509SHA256={certificate}")];
    let extra = [("authentication.kubernetes.io/credential-id".to_owned(), id)].into();
    Arc::new(Identity { user: name.to_owned(), groups, extra, ..Identity::default() })
}

fn lacking() -> Lacking {
    let rights = vec![Attributes::impersonate("", "users", "", "", "jane")];
    Lacking { rights, words: Arc::from("impersonate users \"jane\"") }
}

fn ends(answers: &[Answer], end: Outcome) -> usize {
    answers.iter().filter(|answer| answer.outcome == end).count()
}

#[tokio::test(start_paused = true)]
async fn refused_user_is_recorded_once_for_all_certificates() {
    let (cluster, (access, written)) = (cluster(), on_demand_access());
    let refused = access.acquire(&cluster, &user("jane", &["dev", "ops"], 0), &lacking()).await;
    assert_eq!(refused, Answer { outcome: Outcome::Late, lacking: Some(lacking().words) });
    let (first, begun) = (written.load(Ordering::SeqCst), Instant::now());
    for certificate in 1..=40 {
        let jane = user("jane", &["ops", "dev", "dev"], certificate);
        assert_eq!(access.request(&cluster, &jane, &lacking().rights).await, refused, "{certificate}");
    }
    assert_eq!(written.load(Ordering::SeqCst), first, "no other write");
    assert_eq!(begun.elapsed(), Duration::ZERO, "no wait and no question to the member");
}

/// A busy host takes seconds to write a right.
#[tokio::test(start_paused = true)]
async fn request_waits_ten_seconds_for_its_right() {
    let (cluster, (access, _)) = (cluster(), on_demand_access());
    let begun = Instant::now();
    let refused = access.acquire(&cluster, &user("jane", &["dev"], 0), &lacking()).await;
    assert_eq!((refused.outcome, begun.elapsed().as_secs()), (Outcome::Late, 10));
}

#[tokio::test(start_paused = true)]
async fn certificates_of_one_user_take_one_place() {
    let (cluster, (access, _)) = (cluster(), on_demand_access());
    let lacking = lacking();
    let certificates = (0..40).map(|certificate| user("jane", &["dev"], certificate));
    let others = (1..MAX_WAITING).map(|number| user(&format!("user-{number}"), &["dev"], number));
    let all: Vec<_> = certificates.chain(others).collect();
    let ended = join_all(all.iter().map(|user| access.acquire(&cluster, user, &lacking))).await;
    assert_eq!(ends(&ended, Outcome::Busy), 0, "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn one_user_with_many_groups_leaves_places_for_others() {
    let (cluster, (access, _)) = (cluster(), on_demand_access());
    let lacking = lacking();
    let sets: Vec<_> = (0..40).map(|number| user("jane", &[&format!("group-{number}")], 0)).collect();
    let others: Vec<_> = (0..20).map(|number| user(&format!("user-{number}"), &[], 0)).collect();
    let (sets, others) = tokio::join!(
        join_all(sets.iter().map(|user| access.acquire(&cluster, user, &lacking))),
        join_all(others.iter().map(|user| access.acquire(&cluster, user, &lacking))),
    );
    assert_eq!((ends(&sets, Outcome::Late), ends(&sets, Outcome::Busy)), (4, 36));
    assert_eq!(ends(&others, Outcome::Late), 20, "{others:?}");
}

#[tokio::test(start_paused = true)]
async fn busy_user_gets_the_next_free_place() {
    let (cluster, (access, written)) = (cluster(), on_demand_access());
    let places: Vec<_> = (0..MAX_WAITING).map(|number| cluster.waiters.enter(&number.to_string())).collect();
    let jane = user("jane", &[], 0);
    assert_eq!(access.acquire(&cluster, &jane, &lacking()).await.outcome, Outcome::Busy);
    assert_eq!(written.load(Ordering::SeqCst), 0);
    drop(places);
    assert_eq!(access.acquire(&cluster, &jane, &lacking()).await.outcome, Outcome::Late);
    assert!(written.load(Ordering::SeqCst) > 0, "the user is recorded");
}
