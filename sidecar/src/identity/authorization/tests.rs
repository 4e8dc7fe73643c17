use http::Request;
use serde_json::json;

use super::*;
use crate::host::fake::host;

fn rights(method: &str, rest: &str, upgrade: Option<&str>) -> Vec<String> {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("{}{rest}", kubectl_mc_api::path::CLUSTERS_PATH))
        .header("host", "h");
    if let Some(protocol) = upgrade {
        request = request.header("connection", "Upgrade").header("upgrade", protocol);
        request = request.header("sec-websocket-key", "a2V5").header("sec-websocket-version", "13");
    }
    let info = RequestInfo::parse(&request.body(()).unwrap()).unwrap();
    Attributes::of(&info)
        .map(|attributes| match attributes {
            Attributes::Resource { verb, subresource, name, .. } => {
                format!("{verb} {name}/{subresource}")
            }
            Attributes::NonResource { verb, path } => format!("{verb} {path}"),
        })
        .collect()
}

#[test]
fn plain_request_needs_the_verb_of_its_method_on_the_proxy() {
    assert_eq!(rights("GET", "/m1/proxy/api", None), ["get m1/proxy"]);
    assert_eq!(rights("DELETE", "/m1/proxy/api", None), ["delete m1/proxy"]);
    assert_eq!(rights("GET", "", None), ["list /"]);
    assert_eq!(rights("GET", "?watch=1", None), ["watch /"]);
    assert_eq!(rights("GET", "/m1", None), ["get m1/"]);
}

#[test]
fn self_review_needs_only_get() {
    for review in [
        "authentication.k8s.io/v1/selfsubjectreviews",
        "authorization.k8s.io/v1/selfsubjectaccessreviews",
        "authorization.k8s.io/v1/selfsubjectrulesreviews",
    ] {
        let path = format!("/m1/proxy/apis/{review}");
        assert_eq!(rights("POST", &path, None), ["get m1/proxy"], "{review}");
        assert_eq!(rights("POST", &format!("{path}?pretty=true"), None), ["get m1/proxy"], "{review}");
        assert_eq!(rights("PUT", &path, None), ["update m1/proxy"], "{review}");
        assert_eq!(rights("POST", &path, Some("SPDY/3.1")), ["create m1/proxy"], "{review}");
        assert_eq!(rights("POST", &format!("{path}/x"), None), ["create m1/proxy"], "{review}");
    }
}

/// The host grants the path of self reviews to every authenticated user.
#[test]
fn self_review_path_needs_the_rights_of_the_proxy() {
    let path = "/m1/selfreviews/apis/authentication.k8s.io/v1/selfsubjectreviews";
    assert_eq!(rights("POST", path, None), ["get m1/proxy"]);
    assert_eq!(rights("GET", path, None), ["get m1/proxy"]);
    assert_eq!(rights("DELETE", path, None), ["delete m1/proxy"]);
    assert_eq!(rights("POST", path, Some("SPDY/3.1")), ["create m1/proxy"]);
    assert_eq!(rights("GET", "/m1/selfreviews/version", None), ["get m1/proxy"]);
    let entered = rights("GET", "/m1/selfreviews/version", Some("websocket"));
    assert_eq!(entered, ["get m1/proxy", "create m1/proxy"]);
    assert_eq!(rights("POST", "/m1/selfreviews/version", None), ["create m1/proxy"]);
}

#[test]
fn other_posts_need_create() {
    for path in [
        "authorization.k8s.io/v1/subjectaccessreviews",
        "authorization.k8s.io/v1/namespaces/x/localsubjectaccessreviews",
        "authentication.k8s.io/v1/tokenreviews",
        "authorization.k8s.io/v1/%73elfsubjectaccessreviews",
        "example.com/v1/selfsubjectreviews",
        "authorization.k8s.io/v1//selfsubjectaccessreviews",
    ] {
        assert_eq!(rights("POST", &format!("/m1/proxy/apis/{path}"), None), ["create m1/proxy"], "{path}");
    }
}

#[test]
fn upgrade_needs_create_for_every_method() {
    assert_eq!(rights("GET", "/m1/proxy/x", Some("websocket")), ["get m1/proxy", "create m1/proxy"]);
    assert_eq!(rights("POST", "/m1/proxy/x", Some("SPDY/3.1")), ["create m1/proxy"]);
    assert_eq!(rights("GET", "/m1/attach", Some("websocket")), ["get m1/attach", "create m1/attach"]);
}

/// The rights that the sidecar checks for a request, and the result, with a host that allows rights
/// only in these groups.
async fn asked(
    uri: &str,
    allowed: &'static [&'static str],
    hub: Option<Origin>,
) -> (Vec<String>, Result<Option<Origin>, Error>) {
    let (sender, asked) = std::sync::mpsc::channel();
    let (client, _) = host(move |review| {
        let attributes = &review["spec"]["resourceAttributes"];
        let text = |key: &str| attributes[key].as_str().unwrap_or_default().to_owned();
        let (group, verb) = (text("group"), text("verb"));
        let known = format!("{verb} {group}");
        let status =
            json!({"allowed": allowed.contains(&group.as_str()) || allowed.contains(&known.as_str())});
        assert_eq!(text("version"), "v1alpha1");
        sender.send(known).unwrap();
        (201, json!({"kind": "SubjectAccessReview", "metadata": {}, "spec": {}, "status": status}))
    });
    let authorizer = Authorizer::with(client, Config { hub, ..Config::default() });
    let jane = Arc::new(Identity { user: "jane".to_owned(), ..Identity::default() });
    let own = format!("{}{uri}", kubectl_mc_api::path::CLUSTERS_PATH);
    let uri = if uri.starts_with("/apis/") { uri } else { &own };
    let request = Request::builder().uri(uri).header("host", "h").header("connection", "Upgrade");
    let request = request.header("upgrade", "SPDY/3.1");
    let info = RequestInfo::parse(&request.body(()).unwrap()).unwrap();
    let allowed = authorizer.authorize(jane.into(), Caller::of_hash(1), &info).await;
    (asked.try_iter().collect(), allowed.map(|allowed| allowed.only_for()))
}

const OWN: &str = "proxy.kubectl-mc.dev";
const KARMADAS: &str = "cluster.karmada.io";
const KARMADA: Option<Origin> = Some(Origin::Karmada);
const ADMIRALS: &str = "aggregated.kubeadmiral.io";
const KUBEADMIRAL: Option<Origin> = Some(Origin::KubeAdmiral);

#[tokio::test]
async fn karmada_grant_applies_to_karmada_members_only() {
    let (rights, only_for) = asked("/m1/proxy/x", &[OWN], KARMADA).await;
    assert_eq!(rights, [format!("get {OWN}"), format!("create {OWN}")], "a second question after a yes");
    assert_eq!(only_for.unwrap(), None);
    let (rights, only_for) = asked("/m1/proxy/x", &[KARMADAS], KARMADA).await;
    let expected = ["get", "create"].map(|verb| [OWN, KARMADAS].map(|group| format!("{verb} {group}")));
    assert_eq!(rights, expected.concat());
    assert_eq!(only_for.unwrap(), Some(Origin::Karmada));
    // Rights from both groups together are enough, but only for Karmada's members.
    let (_, only_for) =
        asked("/m1/proxy/x", &["get proxy.kubectl-mc.dev", "create cluster.karmada.io"], KARMADA).await;
    assert_eq!(only_for.unwrap(), Some(Origin::Karmada));
}

#[tokio::test]
async fn refusal_names_the_own_api_group() {
    for hub in [None, KARMADA] {
        let (rights, refused) = asked("/m1/proxy/x", &[], hub).await;
        assert_eq!(rights.len(), if hub.is_some() { 2 } else { 1 });
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("clusters.proxy.kubectl-mc.dev") && !refused.contains("karmada"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn karmada_grant_does_not_apply_by_default() {
    assert!(asked("/m1/proxy/x", &[KARMADAS], None).await.1.is_err());
    // A grant of Karmada never allows an agent's tunnel.
    assert!(asked("/m1/attach", &[KARMADAS], KARMADA).await.1.is_err());
}

#[tokio::test]
async fn kubeadmiral_path_needs_a_right_in_its_own_group() {
    let path = "/apis/aggregated.kubeadmiral.io/v1alpha1/aggregations/m1/proxy/x";
    let (rights, only_for) = asked(path, &[ADMIRALS], KUBEADMIRAL).await;
    assert_eq!(rights, ["get", "create"].map(|verb| format!("{verb} {ADMIRALS}")));
    assert_eq!(only_for.unwrap(), KUBEADMIRAL);
    let (rights, refused) = asked(path, &[OWN, KARMADAS], KUBEADMIRAL).await;
    assert_eq!(rights, [format!("get {ADMIRALS}")], "our own group counts on our own path only");
    let refused = refused.unwrap_err().to_string();
    assert!(refused.starts_with("aggregations.aggregated.kubeadmiral.io \"m1\" is forbidden"), "{refused}");
}

#[tokio::test]
async fn kubeadmiral_group_reaches_kubeadmiral_members_only() {
    // Administrators of the host need no review, but they also reach only the hub's members.
    let request = Request::builder().uri("/apis/aggregated.kubeadmiral.io/v1alpha1/aggregations/m1/proxy");
    let info = RequestInfo::parse(&request.header("host", "h").body(()).unwrap()).unwrap();
    let (client, asked_of_host) = host(|_| unreachable!());
    let authorizer = Authorizer::with(client, Config { hub: KUBEADMIRAL, ..Config::default() });
    let admin = Identity { user: "root".to_owned(), groups: vec![MASTERS.to_owned()], ..Identity::default() };
    let allowed = authorizer.authorize(Arc::new(admin).into(), Caller::of_hash(1), &info).await;
    assert_eq!(allowed.unwrap().only_for(), KUBEADMIRAL);
    assert_eq!(asked_of_host.load(std::sync::atomic::Ordering::SeqCst), 0);
    // On kubectl-mc's own path, a right in the hub's group covers only the hub's members.
    let (rights, only_for) = asked("/m1/proxy/x", &[ADMIRALS], KUBEADMIRAL).await;
    assert_eq!(rights.len(), 4);
    assert_eq!(only_for.unwrap(), KUBEADMIRAL);
    assert!(asked("/m1/proxy/x", &[ADMIRALS], KARMADA).await.1.is_err());
}
