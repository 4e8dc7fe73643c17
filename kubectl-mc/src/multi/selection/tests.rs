use std::collections::BTreeMap;

use super::selected_clusters::Listed;
use super::*;
use crate::cluster::inventory::InventoryError;
use crate::config_file::ClusterSet;
use crate::error::Explain;
use crate::exit::ExitStatus;
use crate::server_text::ServerText;

/// Clusters with a hyphen run v1.34.4, the others v1.33.9.
fn target(name: &str, label: &str) -> SelectedCluster {
    let labels = BTreeMap::from([("env".into(), label.into())]);
    let version = if name.contains('-') { "v1.34.4" } else { "v1.33.9" };
    let version = Some(version.into());
    SelectedCluster {
        name: name.parse().unwrap(),
        listed: Some(Listed { labels, version, ready: Readiness::Ready, ..Listed::default() }),
    }
}

fn choice(terms: &str) -> Choice {
    Choice::parse(&[terms], &[], None, false).unwrap().unwrap()
}

/// Resolves against eu-1 eu-2 (prod), us-1 (prod), m1 (dev); returns names and the requested selectors.
fn resolve(choice: &Choice) -> (Result<Vec<String>, SelectionError>, Vec<Option<String>>) {
    let sets: BTreeMap<_, _> = [
        ("prod", ClusterSet { selector: Some("env=prod".to_owned()), ..Default::default() }),
        ("eu", ClusterSet { clusters: vec!["eu-*".to_owned(), "!eu-2".to_owned()], ..Default::default() }),
        ("named", ClusterSet { clusters: vec!["m1,x9".to_owned()], ..Default::default() }),
        ("both", ClusterSet { clusters: vec!["@named".to_owned(), "@eu".to_owned()], ..Default::default() }),
        ("old", ClusterSet { r#where: Some("version<1.34".to_owned()), ..Default::default() }),
        (
            "odd",
            ClusterSet {
                clusters: vec!["eu-*,m1".to_owned()],
                selector: Some("env=prod".to_owned()),
                r#where: Some("name!=eu-1".to_owned()),
            },
        ),
        ("bad", ClusterSet { r#where: Some("verison<1.34".to_owned()), ..Default::default() }),
        ("loop", ClusterSet { clusters: vec!["@loop".to_owned()], ..Default::default() }),
    ]
    .map(|(name, set)| (name.to_owned(), set))
    .into();
    let mut asked = Vec::new();
    let list = |selector: Option<&str>| {
        asked.push(selector.map(str::to_owned));
        let all =
            [target("us-1", "prod"), target("eu-2", "prod"), target("eu-1", "prod"), target("m1", "dev")];
        let wanted = |target: &SelectedCluster| {
            selector.is_none_or(|selector| {
                selector.split(',').all(|one| {
                    let value = target.listed.as_ref().unwrap().labels[&"env".into()].raw();
                    one.strip_prefix("env=").is_some_and(|wanted| wanted == value)
                })
            })
        };
        Ok(all.into_iter().filter(wanted).collect())
    };
    let targets = choice.resolve(&sets, &mut members_only(list));
    (targets.map(|targets| targets.names().map(ToString::to_string).collect()), asked)
}

#[test]
fn exact_names_need_no_list_and_keep_their_order() {
    for (terms, expected) in [
        ("m9,m1", &["m9", "m1"][..]),
        ("m1,m2,m1", &["m1", "m2"]),
        ("a,b,!b", &["a"]),
        ("@named,!m1", &["x9"]),
        ("@named", &["m1", "x9"]),
    ] {
        let (names, asked) = resolve(&choice(terms));
        assert_eq!(names.unwrap(), expected, "{terms}");
        assert!(asked.is_empty(), "{terms}");
    }
}

#[test]
fn patterns_sets_exclusions_and_labels_choose() {
    let all = || Choice::parse::<&str>(&[], &[], None, true).unwrap().unwrap();
    let selected =
        |terms: &[&str], selector| Choice::parse(terms, &[], Some(selector), false).unwrap().unwrap();
    let filtered = |terms: &[&str], filter| {
        let choice = Choice::parse(terms, &[], None, false).unwrap();
        Choice::filtered(choice, FieldFilter::parse(&[filter]).unwrap()).unwrap()
    };
    let without =
        |terms: &[&str], out: &str| Choice::parse(terms, &[out.to_owned()], None, false).unwrap().unwrap();
    for (choice, expected) in [
        (all(), &["eu-1", "eu-2", "m1", "us-1"][..]),
        (choice("us-*,eu-*"), &["us-1", "eu-1", "eu-2"]),
        (choice("!m1"), &["eu-1", "eu-2", "us-1"]),
        (choice("*,!/^eu/"), &["m1", "us-1"]),
        (without(&["*"], "eu-*,m1"), &["us-1"]),
        (without(&[], "@eu"), &["eu-2", "m1", "us-1"]),
        (selected(&[], "env=prod"), &["eu-1", "eu-2", "us-1"]),
        (selected(&["m1", "eu-1"], "env=prod"), &["eu-1"]),
        (selected(&["@eu"], "env=prod"), &["eu-1"]),
        (filtered(&[], "version<1.34"), &["m1"]),
        (filtered(&["us-*,m1"], "version=1.34"), &["us-1"]),
        (filtered(&["m1,eu-2"], "version=1.34"), &["eu-2"]),
        (filtered(&["@both"], "name!=m1"), &["eu-1"]),
        (filtered(&["*,!@named"], "version=1.34"), &["eu-1", "eu-2", "us-1"]),
        (filtered(&["@eu,@old"], "version=1.34"), &["eu-1"]),
        (choice("@old"), &["m1"]),
        (choice("@odd"), &["eu-2"]),
        (choice("*,!@old"), &["eu-1", "eu-2", "us-1"]),
        (choice("@prod"), &["eu-1", "eu-2", "us-1"]),
        (choice("@both"), &["m1", "x9", "eu-1"]),
    ] {
        assert_eq!(resolve(&choice).0.unwrap(), expected, "{choice:?}");
    }
}

#[test]
fn host_is_queried_once_per_selector() {
    assert_eq!(resolve(&choice("eu-*,us-*,!m1")).1, [None]);
    let (_, asked) = resolve(&Choice::parse(&["@prod"], &[], Some("env=prod"), false).unwrap().unwrap());
    assert_eq!(asked, [Some("env=prod,env=prod".to_owned())]);
}

#[test]
fn pattern_without_match_lists_the_clusters() {
    let error = resolve(&choice("asia-*")).0.unwrap_err();
    assert_eq!(error.status(), ExitStatus::NoSuchCluster);
    assert_eq!(error.hint(), Some("there are eu-1, eu-2, m1, us-1".into()));
    let error = resolve(&choice("eu-*,us-3")).0.unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.status()),
        ("cluster unknown: us-3", ExitStatus::NoSuchCluster)
    );
    assert_eq!(error.hint(), Some("did you mean us-1?".into()));
    let error = resolve(&choice("@pord")).0.unwrap_err();
    assert_eq!(
        (error.hint(), error.status()),
        (
            Some("did you mean @prod? there are @bad, @both, @eu, @loop, @named, @odd, @old, @prod".into()),
            ExitStatus::Usage
        )
    );
    assert!(matches!(resolve(&choice("@loop")).0.unwrap_err(), SelectionError::Circle { .. }));
}

#[test]
fn only_a_single_name_is_an_exact_choice() {
    assert_eq!(choice("m1").exact().unwrap().as_str(), "m1");
    for terms in ["m1,m2", "m*", "!m1", "@x", "/m1/"] {
        assert_eq!(choice(terms).exact(), None, "{terms}");
    }
    assert_eq!(Choice::parse::<&str>(&[], &[], None, false).unwrap(), None);
    let filter = FieldFilter::parse(&["ready=True"]).unwrap();
    assert_eq!(Choice::filtered(Some(choice("m1")), filter).unwrap().exact(), None);
    assert_eq!(Choice::filtered(None, FieldFilter::default()), None);
}

#[test]
fn list_provides_labels_and_readiness() {
    let list = serde_json::json!({"items": [
        {"metadata": {"name": "m1", "labels": {"env": "prod"}}, "status": {"version": "v1.36.3", "conditions": [
            {"type": "Ready", "status": "False", "reason": "Unreachable", "message": "no route to host"}]}},
        {"metadata": {"name": "m2"}}]});
    let targets = SelectedCluster::of_list(&list);
    assert_eq!(targets[0].not_ready(), Some(&"no route to host".into()));
    let listed = targets[0].listed.as_ref().unwrap();
    assert_eq!(
        (listed.labels[&"env".into()].raw(), listed.version.as_ref().map(ServerText::raw)),
        ("prod", Some("v1.36.3"))
    );
    assert_eq!(targets[1].listed.as_ref().unwrap().ready, Readiness::Unknown);
}

#[test]
fn filter_never_selects_an_unknown_name() {
    let filtered = |terms| {
        let filter = FieldFilter::parse(&["ready!=False"]).unwrap();
        resolve(&Choice::filtered(Some(choice(terms)), filter).unwrap()).0.unwrap_err()
    };
    assert_eq!(filtered("m1,x9").to_string(), "cluster unknown: x9");
    let error = resolve(&choice("@bad")).0.unwrap_err();
    assert_eq!(
        crate::error::chain(&error),
        "the set @bad of the configuration: where: unknown field \"verison\""
    );
    assert_eq!(error.status(), ExitStatus::Usage);
}

#[test]
fn excluded_name_must_be_a_cluster_name() {
    for (terms, excluded) in [("*,!eu-9", "eu-9"), ("m1,eu-1,!m2", "m2"), ("@prod,!eu1", "eu1")] {
        let error = resolve(&choice(terms)).0.unwrap_err();
        assert_eq!(error.to_string(), format!("cannot exclude {excluded}: no such cluster"));
        let hint = error.hint().unwrap().to_string();
        assert!(hint.starts_with("did you mean eu-") || hint.starts_with("there are eu-1,"), "{hint}");
        assert_eq!(error.status(), ExitStatus::NoSuchCluster);
    }
    for terms in ["eu-*,!us-1", "m1,eu-1,!us-1", "*,!x*", "@prod,!m1"] {
        assert!(resolve(&choice(terms)).0.is_ok(), "{terms}");
    }
    // The host lists no clusters for this caller, but exact names need no list.
    let refuse = |_: Option<&str>| Err(refused());
    let targets = choice("m1,m2,!m3").resolve(&BTreeMap::new(), &mut members_only(refuse)).unwrap();
    assert_eq!(targets.len(), 2);
}

fn refused() -> InventoryError {
    let source = crate::cluster::client::ClientError::Setup("refused".into());
    InventoryError::Client { host: "host".to_owned(), source }
}
