use serde_json::json;

use super::*;
use crate::exit::ExitStatus;

/// The names of the matching clusters among m1 (1.34.4, prod), m2 (1.33.9+k3s1, not ready) and m3 (without
/// data).
fn matching(filters: &[&str]) -> String {
    let list = json!({"items": [
        {"metadata": {"name": "m1", "labels": {"env": "prod", "a.b/c": ""}},
         "status": {"version": "v1.34.4", "server": "https://m1:6443", "conditions": [
            {"type": "Ready", "status": "True"}, {"type": "AuthSynced", "status": "False"}]}},
        {"metadata": {"name": "m2"}, "status": {"version": "v1.33.9+k3s1", "conditions": [
            {"type": "Ready", "status": "False"}]}},
        {"metadata": {"name": "m3"}}]});
    let filter = FieldFilter::parse(filters).unwrap();
    let clusters = SelectedCluster::of_list(&list);
    let names =
        clusters.iter().filter(|cluster| filter.matches(cluster)).map(|cluster| cluster.name.as_str());
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn clusters_are_filtered_by_each_field() {
    for (filter, expected) in [
        ("metadata.name=m1", "m1"),
        ("name!=m1", "m2 m3"),
        ("metadata.labels.env=prod", "m1"),
        ("metadata.labels.env!=prod", "m2 m3"),
        ("metadata.labels.a.b/c=", "m1"),
        ("status.server==https://m1:6443", "m1"),
        ("status.version=v1.34.4", "m1"),
        ("status.version=1.33", "m2"),
        ("status.version!=v1.34.4", "m2 m3"),
        ("version>=v1.34", "m1"),
        ("version>1.33", "m1"),
        ("version<=1.33", "m2"),
        ("version<v1.34.4", "m2"),
        ("status.conditions.Ready=True", "m1"),
        ("ready!=False", "m1 m3"),
        ("ready=unknown", "m3"),
        ("status.conditions.AuthSynced=False", "m1"),
    ] {
        assert_eq!(matching(&[filter]), expected, "{filter}");
    }
}

#[test]
fn all_requirements_hold() {
    assert_eq!(matching(&["ready!=False, version=1.34"]), "m1");
    assert_eq!(matching(&["ready!=False", "name!=m1"]), "m3");
    assert_eq!(matching(&["ready=True,ready=False"]), "");
    assert_eq!(matching(&[]), "m1 m2 m3");
}

#[test]
fn unknown_versions_have_no_order() {
    assert_eq!(matching(&["name=m3,version<9.0"]), "");
    assert_eq!(matching(&["name=m3,version>=0.1"]), "");
}

#[test]
fn invalid_filter_is_refused() {
    for (filter, said) in [
        ("", "empty requirement"),
        ("ready=True,", "empty requirement"),
        ("ready", "\"ready\" has no comparison operator"),
        ("ready!True", "\"ready!True\" has no comparison operator"),
        ("verison=v1.34", "unknown field \"verison\""),
        ("=x", "unknown field \"\""),
        ("metadata.labels.=x", "unknown field \"metadata.labels.\""),
        ("status.conditions.Redy=True", "unknown condition \"Redy\""),
        ("ready=Maybe", "invalid value \"Maybe\" of ready: expected True, False, Unknown"),
        ("ready>True", "ready takes = and != only"),
        ("metadata.labels.env>a", "metadata.labels.env takes = and != only"),
        ("version=latest", "invalid value \"latest\" of version: expected v1.34 or v1.34.2"),
        (
            "version<1.34.1+k3s1",
            "invalid value \"1.34.1+k3s1\" of version: a suffix compares with = and != only: v1.34.1",
        ),
        ("version>=1.33<1.35", "invalid value \"1.33<1.35\" of version: one comparison for each comma"),
    ] {
        let error = FieldFilter::parse(&[filter]).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.status), (said, ExitStatus::Usage), "{filter}");
        assert!(error.hint.is_some(), "{filter}");
    }
    assert!(FieldFilter::parse(&["name=M1"]).unwrap_err().to_string().starts_with("invalid value \"M1\""));
    let hint = FieldFilter::parse(&["verison=1.34"]).unwrap_err().hint.unwrap().to_string();
    assert!(hint.starts_with("did you mean version? the fields are metadata.name, "), "{hint}");
    let hint = FieldFilter::parse(&["status.conditions.ready=True"]).unwrap_err().hint.unwrap().to_string();
    assert!(hint.starts_with("did you mean Ready? the conditions are Ready, "), "{hint}");
}
