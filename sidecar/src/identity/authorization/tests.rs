use http::Request;
use serde_json::json;

use super::*;
use crate::fake_host::host;

fn rights(method: &str, rest: &str, upgrade: Option<&str>) -> Vec<String> {
    let mut request =
        Request::builder().method(method).uri(format!("{}{rest}", path::CLUSTERS_PATH)).header("host", "h");
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
fn a_plain_request_needs_its_methods_verb_on_the_clusters_proxy() {
    assert_eq!(rights("GET", "/m1/proxy/api", None), ["get m1/proxy"]);
    assert_eq!(rights("DELETE", "/m1/proxy/api", None), ["delete m1/proxy"]);
    assert_eq!(rights("GET", "", None), ["list /"]);
    assert_eq!(rights("GET", "?watch=1", None), ["watch /"]);
    assert_eq!(rights("GET", "/m1", None), ["get m1/"]);
}

#[test]
fn review_of_the_caller_needs_only_get() {
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

/// The host lets everybody in there.
#[test]
fn self_reviews_need_the_rights_of_the_proxy() {
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
fn an_upgrade_needs_create_whatever_its_method() {
    assert_eq!(rights("GET", "/m1/proxy/x", Some("websocket")), ["get m1/proxy", "create m1/proxy"]);
    assert_eq!(rights("POST", "/m1/proxy/x", Some("SPDY/3.1")), ["create m1/proxy"]);
    assert_eq!(rights("GET", "/m1/attach", Some("websocket")), ["get m1/attach", "create m1/attach"]);
}

/// Who is asked for: every right that the host was asked for, and what came of it, if it allows those of these groups.
async fn asked(
    uri: &str,
    allowed: &'static [&'static str],
    counts_karmada: bool,
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
    let authorizer = Authorizer::with(client, Config { counts_karmada, ..Config::default() });
    let jane = Arc::new(Identity { user: "jane".to_owned(), ..Identity::default() });
    let uri = format!("{}{uri}", path::CLUSTERS_PATH);
    let request = Request::builder().uri(uri).header("host", "h").header("connection", "Upgrade");
    let request = request.header("upgrade", "SPDY/3.1");
    let info = RequestInfo::parse(&request.body(()).unwrap()).unwrap();
    let allowed = authorizer.authorize(jane.into(), Caller::of_hash(1), &info).await;
    (asked.try_iter().collect(), allowed.map(|allowed| allowed.only_for()))
}

const OWN: &str = "proxy.kubectl-mc.dev";
const KARMADAS: &str = "cluster.karmada.io";

#[tokio::test]
async fn grant_of_karmada_counts_for_members_of_karmada_only() {
    let (rights, only_for) = asked("/m1/proxy/x", &[OWN], true).await;
    assert_eq!(rights, [format!("get {OWN}"), format!("create {OWN}")], "a second question after a yes");
    assert_eq!(only_for.unwrap(), None);
    let (rights, only_for) = asked("/m1/proxy/x", &[KARMADAS], true).await;
    let expected = ["get", "create"].map(|verb| [OWN, KARMADAS].map(|group| format!("{verb} {group}")));
    assert_eq!(rights, expected.concat());
    assert_eq!(only_for.unwrap(), Some(Origin::Karmada));
    // One right by each group is enough, and is for Karmada's members only.
    let (_, only_for) =
        asked("/m1/proxy/x", &["get proxy.kubectl-mc.dev", "create cluster.karmada.io"], true).await;
    assert_eq!(only_for.unwrap(), Some(Origin::Karmada));
}

#[tokio::test]
async fn refusal_names_our_own_group() {
    for counts_karmada in [false, true] {
        let (rights, refused) = asked("/m1/proxy/x", &[], counts_karmada).await;
        assert_eq!(rights.len(), if counts_karmada { 2 } else { 1 });
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("clusters.proxy.kubectl-mc.dev") && !refused.contains("karmada"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn grant_of_karmada_does_not_count_by_default() {
    assert!(asked("/m1/proxy/x", &[KARMADAS], false).await.1.is_err());
    // Nor ever for an agent's tunnel.
    assert!(asked("/m1/attach", &[KARMADAS], true).await.1.is_err());
}
