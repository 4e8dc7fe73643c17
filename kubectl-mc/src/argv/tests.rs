use super::*;

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn joined(words: &[OsString]) -> String {
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// (typed, for the plugin, for kubectl)
#[test]
fn plugin_flags_are_removed_and_the_rest_is_unchanged() {
    for (line, own, kubectl) in [
        ("get pods", "", "get pods"),
        ("--cluster=m1 get pods -A", "--cluster=m1", "get pods -A"),
        ("--cluster m1 get pods", "--cluster m1", "get pods"),
        ("-C m1 get pods", "-C m1", "get pods"),
        ("-Cm1 get pods", "-Cm1", "get pods"),
        ("-C=m1 get pods", "-C=m1", "get pods"),
        ("get pods --cluster=m1", "--cluster=m1", "get pods"),
        ("get pods -C m1 -o wide", "-C m1", "get pods -o wide"),
        ("get --context c pods --kubeconfig=f", "--context c --kubeconfig=f", "get pods"),
        ("-n ns --cluster=m1 get pods", "--cluster=m1", "-n ns get pods"),
        ("-n get --cluster=m1 get pods", "--cluster=m1", "-n get get pods"),
        ("--as joe -v=6 -C m1 get pods", "-C m1", "--as joe -v=6 get pods"),
        ("get pods --all-clusters -l a=b", "--all-clusters", "get pods -l a=b"),
        ("get pods -C m* --exclude=m2", "-C m* --exclude=m2", "get pods"),
        ("get --exclude m2 pods -A", "--exclude m2", "get pods -A"),
        (
            "delete pod x --yes --batch 1 --pause-on-failure",
            "--yes --batch 1 --pause-on-failure",
            "delete pod x",
        ),
        ("delete pod x -y", "-y", "delete pod x"),
        ("-y -C m1,m2 delete pod x", "-y -C m1,m2", "delete pod x"),
        ("get pods --retry-failed --color=never", "--retry-failed --color=never", "get pods"),
        (
            "get x --cluster-timeout 5s --cluster-concurrency=2",
            "--cluster-timeout 5s --cluster-concurrency=2",
            "get x",
        ),
        ("compare deploy/x -C m* --exclude=m2", "-C m* --exclude=m2", "compare deploy/x"),
        // The verb of another plugin may have such flags.
        ("someplugin -C m1 --exclude=m2 --yes -y", "-C m1", "someplugin --exclude=m2 --yes -y"),
        ("apply --dry-run server -f x --yes", "--yes", "apply --dry-run server -f x"),
        ("exec p -- tool --yes -y --exclude=x", "", "exec p -- tool --yes -y --exclude=x"),
        ("--help", "--help", ""),
        ("-C m1 get --help", "-C m1", "get --help"),
        ("-C m1 get -h", "-C m1", "get -h"),
    ] {
        let scanned = scan(words(line));
        assert_eq!(
            (joined(&scanned.own).as_str(), joined(&scanned.kubectl).as_str()),
            (own, kubectl),
            "{line}"
        );
    }
}

#[test]
fn value_of_a_kubectl_flag_is_no_plugin_flag() {
    for line in [
        "get pods -l --cluster",
        "get pods --selector -C",
        "get pods -o --cluster=x",
        "get pods -Al -C",
        "-n --cluster get pods",
        "--token --cluster=x get pods",
        "patch deploy/x -p --cluster=x",
        "create configmap c --from-literal --cluster=x",
        "apply -f -C",
        "proxy -w -C",
        "annotate pod p --overwrite --field-manager --cluster=x",
        "get pods -l --exclude",
        "delete pods --field-selector --yes",
        "patch deploy/x -p -y",
    ] {
        let scanned = scan(words(line));
        assert_eq!((joined(&scanned.own).as_str(), joined(&scanned.kubectl).as_str()), ("", line));
    }
}

#[test]
fn kubectl_switch_does_not_consume_a_plugin_flag() {
    for (line, kubectl) in [
        ("get pods -w --cluster=m1", "get pods -w"),
        ("get pods -A --cluster=m1", "get pods -A"),
        ("logs -f --cluster=m1 p", "logs -f p"),
        ("logs -p --cluster=m1 p", "logs -p p"),
        ("logs --prefix --cluster=m1 p", "logs --prefix p"),
        ("exec -it --cluster=m1 p -- sh", "exec -it p -- sh"),
        ("apply --dry-run --cluster=m1 -f x", "apply --dry-run -f x"),
        ("delete --cascade --cluster=m1 pod p", "delete --cascade pod p"),
        ("get pods -oyaml --cluster=m1", "get pods -oyaml"),
        ("get pods -n=kube-system --cluster=m1", "get pods -n=kube-system"),
        ("top pod --containers --cluster=m1", "top pod --containers"),
        ("someplugin --whatever --cluster=m1", "someplugin --whatever"),
    ] {
        let scanned = scan(words(line));
        assert_eq!(
            (joined(&scanned.own).as_str(), joined(&scanned.kubectl).as_str()),
            ("--cluster=m1", kubectl)
        );
    }
}

#[test]
fn words_after_two_dashes_are_not_parsed() {
    let scanned = scan(words("exec p -- tar -C / --cluster=x --context y --raw=/z"));
    assert!(scanned.own.is_empty());
    assert_eq!(joined(&scanned.kubectl), "exec p -- tar -C / --cluster=x --context y --raw=/z");
    assert_eq!(scanned.value("raw"), None);
    let scanned = scan(words("-- get --cluster=m1"));
    assert_eq!((scanned.verb(), joined(&scanned.kubectl).as_str()), (None, "-- get --cluster=m1"));
}

#[test]
fn two_dashes_as_a_value_do_not_end_the_flags() {
    let scanned = scan(words("get -l -- pods -A -- x -y"));
    let after_verb: Vec<_> = scanned.words_after_verb().map(|(_, word)| word).collect();
    assert_eq!(after_verb, ["pods"]);
    assert_eq!(scanned.words_after_dashes().collect::<Vec<_>>(), ["x", "-y"]);
    assert!(scanned.has("all-namespaces"));
}

#[cfg(unix)]
#[test]
fn words_that_are_not_utf8_pass_unchanged() {
    use std::os::unix::ffi::OsStringExt;
    let odd = |prefix: &str| OsString::from_vec([prefix.as_bytes(), b"\xff\xfe"].concat());
    let typed =
        vec!["get".into(), odd(""), odd("--field-selector="), odd("-n"), odd("-"), "--cluster=m1".into()];
    let scanned = scan(typed.clone());
    assert_eq!(scanned.kubectl, typed[..5]);
    assert_eq!(joined(&scanned.own), "--cluster=m1");
}

#[test]
fn values_of_kubectl_flags_are_found() {
    let scanned = scan(words("get --raw=/a --as joe --as-group=a --as-group b -n1 pods -it --raw /b --help"));
    assert_eq!(scanned.verb(), Some("get".as_ref()));
    assert_eq!(scanned.value("raw"), Some("/b".as_ref()));
    assert_eq!(scanned.value("as"), Some("joe".as_ref()));
    assert_eq!(scanned.values("as-group").collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(scanned.value("namespace"), Some("1".as_ref()));
    assert!(scanned.has("help"));
    assert!(!scan(words("get --help=false")).has("help"));
    assert!(!scan(words("get -wA=0")).has("all-namespaces"));
    assert!(scan(words("exec -ith p")).has("help"));
    assert_eq!(scan(words("get --raw")).value("raw"), None);
}

#[test]
fn flag_value_is_replaced_in_its_original_form() {
    for (line, expected) in
        [("get --raw=/a -v=6", "get --raw=/p/a -v=6"), ("--v 6 get --raw /a", "--v 6 get --raw /p/a")]
    {
        let mut scanned = scan(words(line));
        scanned.set_value("raw", "/p/a".as_ref());
        assert_eq!(joined(&scanned.kubectl), expected);
        assert_eq!(scanned.value("raw"), Some("/p/a".as_ref()));
    }
    for (line, expected) in [("get -Aoyaml", "get -Aojson"), ("get -o=yaml", "get -o=json")] {
        let mut scanned = scan(words(line));
        scanned.set_value("output", "json".as_ref());
        assert_eq!(joined(&scanned.kubectl), expected);
    }
}

#[test]
fn flag_is_inserted_right_after_the_verb() {
    let mut scanned = scan(words("-n x proxy --port 1 -- y"));
    scanned.insert_after_verb("--append-server-path".as_ref());
    assert_eq!(joined(&scanned.kubectl), "-n x proxy --append-server-path --port 1 -- y");
    assert_eq!(scanned.value("port"), Some("1".as_ref()));
}
