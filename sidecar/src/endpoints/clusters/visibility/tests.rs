use serde_json::{Value, json};

use super::*;
use crate::host::fake::host;

/// A viewer who may enter these clusters, where the empty name means all, and the number of reviews at the
/// host.
fn viewer(entered: &'static [&'static str]) -> (Viewer, Arc<std::sync::atomic::AtomicUsize>) {
    let (client, asked) = host(move |review: &Value| {
        let attributes = &review["spec"]["resourceAttributes"];
        assert_eq!((&attributes["verb"], &attributes["subresource"]), (&json!("get"), &json!("proxy")));
        let allowed = entered.contains(&attributes["name"].as_str().unwrap_or_default());
        (
            201,
            json!({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
                   "spec": {}, "status": {"allowed": allowed}}),
        )
    });
    let identity = Arc::new(Identity { user: "jane".to_owned(), ..Identity::default() });
    let caller = Caller::of_hash(1);
    (Viewer { authorizer: Arc::new(Authorizer::new(client)), identity, caller }, asked)
}

fn names(count: usize) -> impl Iterator<Item = (Arc<str>, Origin)> {
    (1..=count).map(|number| (format!("m{number}").into(), Origin::MemberCluster))
}

#[tokio::test]
async fn one_review_is_enough_for_all_clusters() {
    let (viewer, asked) = viewer(&[""]);
    assert_eq!(viewer.sees(names(1000)).await.unwrap(), Visible::All);
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn viewer_sees_only_clusters_that_it_may_enter() {
    let (viewer, asked) = viewer(&["m1", "m7"]);
    for _ in 0..3 {
        let visible = viewer.sees(names(1000)).await.unwrap();
        assert!(visible.has("m1") && visible.has("m7") && !visible.has("m2"));
    }
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1001, "decisions are not kept");
    assert!(viewer.sees_one(&"m7".parse().unwrap(), Origin::MemberCluster).await.unwrap());
    assert!(!viewer.sees_one(&"unknown".parse().unwrap(), Origin::MemberCluster).await.unwrap());
}

#[tokio::test]
async fn viewer_sees_nothing_while_the_host_does_not_answer() {
    let (client, _) = host(|_| (500, json!({"kind": "Status", "status": "Failure", "code": 500})));
    let identity = Arc::new(Identity { user: "jane".to_owned(), ..Identity::default() });
    let caller = Caller::of_hash(1);
    let viewer = Viewer { authorizer: Arc::new(Authorizer::new(client)), identity, caller };
    assert!(viewer.sees(names(3)).await.is_err());
}

/// A viewer with the right to read in these clusters, each as `group/name`, where Karmada's grants count.
fn of_karmada(entered: &'static [&'static str]) -> (Viewer, Arc<std::sync::atomic::AtomicUsize>) {
    let (client, asked) = host(move |review: &Value| {
        let attributes = &review["spec"]["resourceAttributes"];
        let text = |key: &str| attributes[key].as_str().unwrap_or_default();
        let allowed = entered.contains(&&*format!("{}/{}", text("group"), text("name")));
        (
            201,
            json!({"kind": "SubjectAccessReview", "metadata": {}, "spec": {}, "status": {"allowed": allowed}}),
        )
    });
    let identity = Arc::new(Identity { user: "jane".to_owned(), ..Identity::default() });
    let config = authorization::Config { hub: Some(Origin::Karmada), ..authorization::Config::default() };
    let authorizer = Arc::new(Authorizer::with(client, config));
    (Viewer { authorizer, identity, caller: Caller::of_hash(1) }, asked)
}

#[tokio::test]
async fn karmada_grant_shows_only_members_of_karmada() {
    let clusters = || {
        [("m1", Origin::MemberCluster), ("k1", Origin::Karmada), ("k2", Origin::Karmada)]
            .into_iter()
            .map(|(name, origin)| (Arc::from(name), origin))
    };
    let shown = |visible: Visible| ["m1", "k1", "k2"].map(|name| visible.has(name));
    let (viewer, _) = of_karmada(&["cluster.karmada.io/"]);
    assert_eq!(shown(viewer.sees(clusters()).await.unwrap()), [false, true, true]);
    let (viewer, _) =
        of_karmada(&["cluster.karmada.io/k2", "cluster.karmada.io/m1", "proxy.kubectl-mc.dev/k1"]);
    assert_eq!(shown(viewer.sees(clusters()).await.unwrap()), [false, true, true]);
    for (name, origin, sees) in
        [("k2", Origin::Karmada, true), ("m1", Origin::MemberCluster, false), ("k3", Origin::Karmada, false)]
    {
        assert_eq!(viewer.sees_one(&name.parse().unwrap(), origin).await.unwrap(), sees, "{name}");
    }
}

#[tokio::test]
async fn refusal_makes_equal_reviews_for_every_inventory() {
    let counts = [Origin::MemberCluster, Origin::Karmada].map(async |origin| {
        let (viewer, asked) = of_karmada(&[]);
        assert!(!viewer.sees_one(&"m1".parse().unwrap(), origin).await.unwrap());
        asked.load(std::sync::atomic::Ordering::SeqCst)
    });
    let [own, karmadas] = counts;
    assert_eq!(own.await, karmadas.await);
}
