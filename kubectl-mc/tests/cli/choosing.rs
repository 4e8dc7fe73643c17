//! Tests the selection of clusters, and that the plugin sends no unnecessary request to the host.

use std::fs;

use crate::bed::Bed;

const LIST: &str = r#"{"kind": "ClusterList", "apiVersion": "proxy.kubectl-mc.dev/v1alpha1", "items": [
  {"metadata": {"name": "eu-2", "labels": {"env": "prod"}}},
  {"metadata": {"name": "eu-1", "labels": {"env": "prod"}}, "status": {"version": "v1.34.4", "conditions": [{"type": "Ready", "status": "True"}]}},
  {"metadata": {"name": "us-1"}, "status": {"conditions": [
    {"type": "Ready", "status": "False", "reason": "Unreachable", "message": "no route to host"}]}}]}"#;

/// A bed whose host has three clusters.
fn bed() -> Bed {
    Bed::serving(|path| {
        let body = if path.ends_with("/version") { "{}" } else { LIST };
        (200, "application/json", body.to_owned())
    })
}

fn configure(bed: &Bed, text: &str) {
    let folder = bed.path("home/.config/kubectl-mc");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), text).unwrap();
}

#[test]
fn dry_run_shows_each_command_and_runs_nothing() {
    let bed = bed();
    for words in [
        &["--all-clusters", "--dry-run=clusters", "delete", "pod", "a b"][..],
        &["delete", "pod", "a b", "--all-clusters", "--dry-run=clusters"],
    ] {
        let ran = bed.run(words);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
        assert_eq!(
            ran.out,
            "CLUSTER   READY     COMMAND\n\
             eu-1      True      kubectl mc --context=host --cluster=eu-1 delete pod 'a b'\n\
             eu-2      Unknown   kubectl mc --context=host --cluster=eu-2 delete pod 'a b'\n\
             us-1      False     kubectl mc --context=host --cluster=us-1 delete pod 'a b'\n"
        );
        let requests = bed.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        assert!(requests[0].starts_with("GET /pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters HTTP/1.1\r\n"));
    }
    let ran = bed.run(&["-C", "m7", "--dry-run=clusters", "get", "pods"]);
    assert!(
        ran.out.contains("m7        Unknown   kubectl mc --context=host --cluster=m7 get pods\n"),
        "{ran:?}"
    );
    assert!(bed.requests().is_empty(), "an exact name needs no list");
}

#[test]
fn other_dry_run_values_are_passed_to_kubectl() {
    let ran = bed().run(&["-C", "m1", "apply", "--dry-run=server", "-f", "x"]);
    assert_eq!(ran.arguments(), ["apply", "--context=mc/m1", "--dry-run=server", "-f", "x"]);
}

#[test]
fn label_selector_is_evaluated_by_the_host() {
    let bed = bed();
    bed.run(&["--cluster-selector=env in (prod),tier!=dev", "--dry-run=clusters", "get", "pods"]);
    let request = bed.requests().pop().unwrap();
    assert!(
        request.contains("/clusters?labelSelector=env%20in%20%28prod%29%2Ctier%21%3Ddev HTTP/1.1"),
        "{request}"
    );
}

#[test]
fn each_selection_flag_selects_its_clusters() {
    let bed = bed();
    configure(&bed, "sets: {eu: {clusters: ['eu-*']}}");
    for (words, expected) in [
        (&["--cluster=eu-2,us-1"][..], &["eu-2", "us-1"][..]),
        (&["--cluster=us-1", "--cluster=eu-1"], &["us-1", "eu-1"]),
        (&["--cluster=eu-*"], &["eu-1", "eu-2"]),
        (&["--cluster=/-1$/"], &["eu-1", "us-1"]),
        (&["--cluster=eu-*,!eu-1"], &["eu-2"]),
        (&["--all-clusters", "--exclude=us-*"], &["eu-1", "eu-2"]),
        (&["get", "pods", "--cluster=*", "--exclude=us-1"], &["eu-1", "eu-2"]),
        (&["get", "pods", "-C", "*", "--exclude", "eu-*"], &["us-1"]),
        (&["--where=status.version>=1.34"], &["eu-1"]),
        (&["get", "pods", "--where", "ready!=False"], &["eu-1", "eu-2"]),
        (&["get", "pods", "--where=ready!=False", "--where", "metadata.name!=eu-1"], &["eu-2"]),
        (&["-C", "us-1,eu-2", "--where=ready=False"], &["us-1"]),
        (&["--all-clusters", "--exclude=eu-2", "--where=ready!=True"], &["us-1"]),
        (&["--cluster=@eu"], &["eu-1", "eu-2"]),
    ] {
        let verb: &[&str] = if words[0] == "get" { &[] } else { &["get", "pods"] };
        let ran = bed.run(&[words, &["--dry-run=clusters"], verb].concat());
        let names: Vec<_> = ran.out.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(names, expected, "{words:?} {ran:?}");
    }
    let ran = bed.run_with("KUBECTL_MC_CLUSTER", "*,!us-1", &["--dry-run=clusters", "get", "pods"]);
    assert_eq!(ran.out.lines().count(), 3, "{ran:?}");
}

#[test]
fn mistaken_filter_is_refused_before_a_request() {
    let bed = bed();
    for (filter, said) in [
        (
            "verison=v1.34",
            "error: --where: unknown field \"verison\"\n\
             hint: did you mean version? the fields are metadata.name, metadata.labels.KEY, status.version, status.server, \
             status.conditions.TYPE; for short name, version, ready\n",
        ),
        (
            "",
            "error: --where: empty requirement\nhint: for example: --where='status.version>=v1.34,ready=True'\n",
        ),
    ] {
        for words in
            [&["get", "pods", "--all-clusters"][..], &["clusters"], &["access", "grant", "view", "--user=x"]]
        {
            let ran = bed.run(&[words, &["--where", filter]].concat());
            assert_eq!(ran.failed(), (2, said), "{words:?}");
        }
    }
    assert!(bed.requests().is_empty());
    // The filter also applies to a cluster that is chosen by its name.
    let ran = bed.run(&["-C", "us-1", "--where=ready=True", "get", "pods"]);
    assert_eq!(ran.failed(), (3, "error: no cluster matches\nhint: there are eu-1, eu-2, us-1\n"));
}

#[test]
fn no_choice_lists_the_clusters() {
    let ran = bed().run(&["get", "pods"]);
    let (code, text) = ran.failed();
    assert_eq!(code, 2);
    assert!(text.starts_with("error: no cluster chosen\nhint: choose by --cluster=NAME"), "{text}");
    assert!(text.contains("there are eu-2, eu-1, us-1"), "{text}");
}

#[test]
fn no_match_has_its_own_code_and_lists_clusters() {
    for (cluster, said) in [
        ("asia-*", "error: no cluster matches\nhint: there are eu-1, eu-2, us-1\n"),
        ("eu-*,us-2", "error: cluster unknown: us-2\nhint: did you mean us-1?\n"),
    ] {
        assert_eq!(bed().run(&["-C", cluster, "get", "pods"]).failed(), (3, said));
    }
}

#[test]
fn configuration_with_an_unknown_key_is_refused() {
    let bed = bed();
    configure(&bed, "host: host\nset: {}\n");
    let ran = bed.run(&["-C", "m1", "get", "pods"]);
    let (code, text) = ran.failed();
    assert_eq!(code, 2);
    assert!(text.contains("config.yaml: ") && text.contains("unknown field `set`"), "{text}");
    assert!(text.ends_with("hint: did you mean `sets`?\n"), "{text}");
}

#[test]
fn configuration_names_the_host() {
    let bed = bed().by_kubectl();
    configure(&bed, "host: elsewhere");
    let ran = bed.run(&["-C", "m1", "get", "pods"]);
    assert!(ran.failed().1.contains("context \"elsewhere\" does not exist"), "{ran:?}");
    assert_eq!(bed.run(&["--context=host", "-C", "m1", "get", "pods"]).code, Some(42));
}

#[test]
fn only_a_single_exact_name_execs_kubectl() {
    let bed = bed().by_kubectl();
    assert_eq!(bed.run(&["-C", "eu-1", "get", "pods"]).arguments(), ["get", "--context=mc/eu-1", "pods"]);
    let ran = bed.run(&["-C", "us*,eu-1", "describe", "x"]);
    assert!(ran.out.starts_with("eu-1 | [describe]\neu-1 | [--context=mc/eu-1]\neu-1 | [x]\n"), "{ran:?}");
    assert_eq!(
        ran.err,
        "us-1 | error: not ready: no route to host\n\
         2 of 2 clusters failed: 1 exit code 42 (eu-1), 1 not ready (us-1)\n"
    );
    assert_eq!(ran.code, Some(5));
}

#[test]
fn missing_set_names_the_file_and_its_sets() {
    let bed = bed();
    let file = bed.path("home/.config/kubectl-mc/config.yaml").display().to_string();
    for (text, hint) in [
        (None, "the file does not exist; its key `sets` defines sets"),
        (Some("host: host"), "the file has no sets; its key `sets` defines them"),
        (Some("sets: {prod: {clusters: [m1]}, x: [m1]}"), "did you mean @prod? there are @prod, @x"),
        (Some("sets: {x: [m1]}"), "there are @x"),
    ] {
        text.inspect(|text| configure(&bed, text));
        let said = format!("error: no set @pord in {file}\nhint: {hint}\n");
        assert_eq!(bed.run(&["-C", "@pord", "get", "pods"]).failed(), (2, said.as_str()));
    }
}

#[test]
fn unknown_exclusion_is_an_error_with_a_suggestion() {
    let ran = bed().run(&["get", "pods", "--all-clusters", "--exclude=eu-3"]);
    let (code, said) = ran.failed();
    assert_eq!(code, 3);
    assert!(
        said.starts_with("error: cannot exclude eu-3: no such cluster\nhint: did you mean eu-"),
        "{said}"
    );
}
