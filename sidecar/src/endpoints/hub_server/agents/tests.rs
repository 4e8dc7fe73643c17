use http::Request;

use super::*;
use crate::head::request_info::{RequestInfo, Route};

fn identity(user: &str, groups: &[&str]) -> Identity {
    let groups = groups.iter().map(|&group| group.to_owned()).collect();
    Identity { user: user.to_owned(), groups, ..Identity::default() }
}

#[test]
fn rules_apply_only_to_agents() {
    let any = identity("jane", &["ops"]);
    assert_eq!(Caller::of(&any), Ok(Caller::Any));
    let agent = identity("system:karmada:agent:m1", &[GROUP]);
    assert_eq!(Caller::of(&agent), Ok(Caller::Agent("m1")));
    for user in
        ["jane", "system:karmada:agent:rbac-generator", "system:karmada:agent:", "system:karmada:agent:A"]
    {
        assert_eq!(Caller::of(&identity(user, &[GROUP])), Err(Refused::NoCluster(user.to_owned())), "{user}");
    }
    // Certificates of agents never have the user name without the group.
    let alone = identity("system:karmada:agent:m1", &[]);
    assert_eq!(Caller::of(&alone), Err(Refused::NoCluster(alone.user.clone())));
}

#[test]
fn collection_is_restricted_to_the_own_cluster() {
    let own = "metadata%2Ename%3Dm1";
    for (query, expected) in [
        (None, format!("fieldSelector={own}")),
        (Some("watch=1&resourceVersion=7"), format!("fieldSelector={own}&watch=1&resourceVersion=7")),
        (Some("fieldSelector="), format!("fieldSelector={own}")),
        (Some("fieldSelector=metadata.name%3Dm2"), format!("fieldSelector=metadata%2Ename%3Dm2%2C{own}")),
        // Go uses the first value of a key, in any spelling.
        (
            Some("field%53elector=metadata.name%3Dm2&fieldSelector=x&limit=5"),
            format!("fieldSelector=metadata%2Ename%3Dm2%2C{own}&limit=5"),
        ),
    ] {
        assert_eq!(own_only("m1", query), expected, "{query:?}");
    }
}

#[test]
fn too_many_pairs_do_not_hide_the_selector() {
    for pairs in [MAX_PAIRS + 1, 9_999, 10_000, 20_000] {
        let query = vec!["a=b"; pairs].join("&");
        assert_eq!(own_only("m1", Some(&query)), "fieldSelector=metadata%2Ename%3Dm1", "{pairs}");
    }
}

fn action(method: &str, rest: &str) -> Result<Action, Refused> {
    let target = format!("{}{rest}", Origin::Karmada.collection());
    let request = Request::builder().method(method).uri(target).header("host", "h").body(()).unwrap();
    let Route::HubObjects(objects) = RequestInfo::parse(&request).unwrap().route else { panic!("{rest}") };
    Action::parse("m1", &objects)
}

#[test]
fn every_write_of_the_own_cluster_is_judged() {
    for (method, rest, expected) in [
        ("GET", "", Action::Collection),
        ("GET", "?watch=1", Action::Collection),
        ("DELETE", "", Action::Collection),
        ("GET", "?fieldSelector=metadata.name%3Dm2", Action::Collection),
        ("GET", "/m1", Action::Read),
        ("HEAD", "/m1/", Action::Read),
        ("GET", "/m1/status", Action::Read),
        ("DELETE", "/m1", Action::Delete),
        ("POST", "", Action::Write(Part::New)),
        ("POST", "/", Action::Write(Part::New)),
        ("PUT", "/m1", Action::Write(Part::Object)),
        ("PATCH", "/m1/", Action::Write(Part::Object)),
        ("PUT", "/m1/status", Action::Write(Part::Status)),
        ("PUT", "/m1/status/", Action::Write(Part::Status)),
        ("PATCH", "/m1/status", Action::Write(Part::Status)),
        ("PATCH", "/m1/status/?dryRun=All", Action::Write(Part::Status)),
    ] {
        assert_eq!(action(method, rest), Ok(expected), "{method} {rest}");
    }
}

#[test]
fn unknown_form_of_a_request_is_refused() {
    for (method, rest) in [
        ("PUT", "/m1/finalize"),
        ("PUT", "/m1/scale"),
        ("PATCH", "/m1/Status"),
        ("PUT", "/m1/status/more"),
        ("PATCH", "/m1/status/status"),
        ("DELETE", "/m1/status"),
        ("POST", "/m1"),
        ("POST", "/m1/status"),
        ("POST", "/m1/binding"),
        ("OPTIONS", "/m1"),
        ("OPTIONS", "/m1/status"),
    ] {
        assert!(matches!(action(method, rest), Err(Refused::Form(_))), "{method} {rest}");
    }
}

#[test]
fn request_for_another_cluster_is_refused() {
    for (method, rest) in [
        ("GET", "/m2"),
        ("PUT", "/m2"),
        ("PUT", "/m2/status"),
        ("PATCH", "/m2/status/"),
        ("DELETE", "/m2"),
        ("POST", "/m2"),
        ("OPTIONS", ""),
        ("PUT", ""),
    ] {
        let refused = Refused::Another { cluster: "m1".to_owned() };
        assert_eq!(action(method, rest), Err(refused), "{method} {rest}");
    }
}

#[test]
fn one_spelling_of_each_path_is_sent() {
    assert_eq!(Part::New.path("m1"), "/apis/cluster.karmada.io/v1alpha1/clusters");
    assert_eq!(Part::Object.path("m1"), "/apis/cluster.karmada.io/v1alpha1/clusters/m1");
    assert_eq!(Part::Status.path("m1"), "/apis/cluster.karmada.io/v1alpha1/clusters/m1/status");
}
