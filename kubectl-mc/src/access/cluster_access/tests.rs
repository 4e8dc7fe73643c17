use super::*;

fn named_clusters(names: &[&str]) -> Clusters {
    Clusters::Named(names.iter().map(|name| SelectedCluster::unlisted(name.parse().unwrap())).collect())
}

fn labelled(text: &str) -> Clusters {
    let selector = super::super::label_selector::parse(text).unwrap();
    Clusters::Labelled { text: Some(text.to_owned()), selector }
}

fn grant<'a>(subjects: &'a [GrantSubject], clusters: &'a Clusters) -> MaintainedGrant<'a> {
    MaintainedGrant { role: role("view", None), subjects, clusters, terms: &[], name: None }
}

fn role<'a>(text: &'a str, namespace: Option<&'a str>) -> GrantedRole<'a> {
    GrantedRole::parse(text, namespace).unwrap()
}

fn user(name: &str) -> GrantSubject {
    GrantSubject::user(name).unwrap()
}

#[test]
fn name_is_readable_and_stable_for_equal_grants() {
    let jane = [user("jane")];
    let prod = labelled("env=prod");
    let name = grant(&jane, &prod).name();
    assert!(name.starts_with("view-user-jane-env-prod-"), "{name}");
    // The order of subjects and the notation of a selector do not change the name.
    let (both, other) = ([user("jane"), user("joe")], [user("joe"), user("jane")]);
    let (m12, m21) = (named_clusters(&["m1", "m2"]), named_clusters(&["m2", "m1"]));
    assert_eq!(grant(&both, &m12).name(), grant(&other, &m21).name());
    assert_eq!(name, grant(&jane, &labelled("env==prod")).name());
    let name = |text: &str| grant(&jane, &labelled(text)).name();
    assert_eq!(name("a=1,b!=2,!c"), name("!c,b!=2, a=1"));
}

#[test]
fn different_grants_have_different_names() {
    let (jane, long) = ([user("jane")], [user(&"x".repeat(300))]);
    let (prod, m1) = (labelled("env=prod"), named_clusters(&["m1"]));
    let all = Clusters::Labelled { text: None, selector: Default::default() };
    let names = [
        grant(&jane, &prod).name(),
        grant(&jane, &m1).name(),
        grant(&jane, &all).name(),
        grant(&long, &prod).name(),
        MaintainedGrant { role: role("view", Some("shop")), ..grant(&jane, &prod) }.name(),
        MaintainedGrant { role: role("role/view", Some("shop")), ..grant(&jane, &prod) }.name(),
        MaintainedGrant { role: role("system:x", None), ..grant(&jane, &prod) }.name(),
    ];
    let different: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(different.len(), names.len(), "{names:?}");
    for name in &names {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        assert!(name.len() < 100 && name.bytes().all(plain) && !name.contains("--"), "{name}");
    }
    // The same pattern gives the same name even after another cluster has joined.
    let pattern = ["eu-*".to_owned()];
    let (before, after) = (named_clusters(&["eu-1"]), named_clusters(&["eu-1", "eu-2"]));
    let name = |clusters| MaintainedGrant { terms: &pattern, ..grant(&jane, clusters) }.name();
    assert_eq!(name(&before), name(&after));
    assert_ne!(name(&before), grant(&jane, &before).name());
    assert_eq!(MaintainedGrant { name: Some("on-call"), ..grant(&jane, &prod) }.name(), "on-call");
}

#[test]
fn object_has_the_kind_and_spec_of_a_cluster_access() {
    let jane = [user("jane")];
    let clusters = named_clusters(&["m1", "m2"]);
    let kept = MaintainedGrant { role: role("view", Some("shop")), ..grant(&jane, &clusters) };
    let end = "2026-11-23T16:00:00Z".parse().unwrap();
    let object = kept.object(Some(&["get"]), Some(end));
    let spec: kubectl_mc_api::cluster_access::ClusterAccessSpec =
        serde_json::from_value(object["spec"].clone()).unwrap();
    assert_eq!(spec.clusters.unwrap(), ["m1", "m2"]);
    assert_eq!((spec.role_ref.name.as_str(), spec.namespaces.unwrap()), ("view", vec!["shop".to_owned()]));
    assert_eq!(spec.proxy_verbs.unwrap(), ["get"]);
    assert_eq!(object["spec"]["expirationTimestamp"], "2026-11-23T16:00:00Z");
    let of_role = MaintainedGrant { role: role("role/deployer", Some("shop")), ..grant(&jane, &clusters) };
    let spec = &of_role.object(None, None)["spec"];
    assert_eq!(spec["roleRef"], json!({"kind": "Role", "name": "deployer"}));
    assert_eq!(spec["namespaces"], json!(["shop"]));
    let prod = labelled("env=prod");
    let spec = &grant(&jane, &prod).object(None, None)["spec"];
    assert_eq!(spec["clusterSelector"], json!({"matchLabels": {"env": "prod"}}));
    for absent in ["clusters", "namespaces", "proxyVerbs", "expirationTimestamp"] {
        assert_eq!(spec[absent], Value::Null, "{absent}");
    }
}

#[test]
fn access_ends_after_the_duration() {
    let now: Timestamp = "2026-11-23T08:00:00.7Z".parse().unwrap();
    let eight = end(now, Duration::from_secs(8 * 3600)).unwrap();
    assert_eq!(eight.to_string(), "2026-11-23T16:00:00Z");
    assert!(end(now, Duration::MAX).is_err());
}

#[test]
fn status_is_settled_once_every_cluster_is_reported() {
    let access = |generation: i64, clusters: Value| {
        json!({
            "metadata": {"generation": 2},
            "status": {
                "observedGeneration": generation, "clusters": clusters,
                "conditions": [{"type": "Ready", "status": "False", "reason": "NoneSelected", "message": "none"}],
            },
        })
    };
    let cluster = |name: &str, status: &str| json!({"name": name, "status": status, "reason": "RoleNotBindable", "message": "view is not listed"});
    let pending = |name: &str| json!({"name": name, "status": "Unknown", "reason": "Pending"});
    assert!(!is_settled(&json!({"metadata": {"generation": 1}})));
    assert!(!is_settled(&access(1, json!([]))));
    assert!(!is_settled(&access(2, json!([pending("m1")]))));
    let mut early = access(2, json!([cluster("m1", "True")]));
    early["status"]["conditions"][0]["reason"] = "Pending".into();
    assert!(!is_settled(&early), "the host's objects are missing");
    let settled = access(2, json!([cluster("m1", "True"), cluster("m2", "False")]));
    assert!(is_settled(&settled));
    assert_eq!(ungranted(&settled), ["m2: RoleNotBindable: view is not listed"]);
    assert_eq!(ungranted(&access(2, json!([]))), ["the grant: NoneSelected: none"]);
}
