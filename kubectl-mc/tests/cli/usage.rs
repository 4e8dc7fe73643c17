//! Tests help, versions, and command lines that cannot be run.

use crate::bed::Bed;

#[test]
fn help_before_the_verb_is_the_plugins() {
    let bed = Bed::unreachable();
    let help = bed.run(&["--help"]);
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""));
    for same in [&["-h"][..], &["help"]] {
        assert_eq!(bed.run(same), help, "{same:?}");
    }
    assert!(help.out.contains("kubectl mc --cluster=m1 get pods -A"), "{}", help.out);
    assert!(!help.out.contains("\n\n\n"), "{}", help.out);
    for page in [&help, &bed.run(&["join", "--help"]), &bed.run(&["help", "install"])] {
        assert!(page.out.lines().all(|line| line.chars().count() <= 80), "{}", page.out);
    }
    // Without arguments, an overview is printed that fits the screen.
    let overview = bed.run(&[]);
    assert_eq!((overview.code, overview.err.as_str()), (Some(0), ""));
    let lines: Vec<_> = overview.out.lines().collect();
    assert!(lines.len() <= 20 && lines.iter().all(|line| line.chars().count() <= 80), "{}", overview.out);
    for part in ["kubectl mc -C m1 get pods", "Commands of the plugin: clusters, use,", "kubectl mc --help"] {
        assert!(overview.out.contains(part), "{}", overview.out);
    }
    assert!(bed.run(&["clusters", "--help"]).out.contains("Usage: kubectl mc clusters [OPTIONS]"));
}

#[test]
fn version_without_a_cluster_is_the_plugins() {
    let bed = Bed::unreachable();
    let version = format!("Client Version: v{}\n", env!("CARGO_PKG_VERSION"));
    for words in
        [&["version", "--client"][..], &["--cluster-timeout=5s", "version", "--client"], &["--version"]]
    {
        let ran = bed.run(words);
        assert_eq!(
            (ran.code, ran.out.as_str(), ran.err.as_str()),
            (Some(0), version.as_str(), ""),
            "{words:?}"
        );
    }
    let ran = bed.run(&["version"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), version.as_str()));
    let note = format!("note: the sidecar's version is unknown: {}: ", bed.host());
    assert!(ran.err.starts_with(&note), "{ran:?}");
    let ran = bed.run_with("KUBECONFIG", "/nowhere", &["version"]);
    assert!(ran.out == version && ran.err.contains("no host"), "{ran:?}");
    assert_eq!(
        bed.run(&["version", "--client", "-C", "m1"]).arguments(),
        ["version", "--context=mc/m1", "--client"]
    );
}

#[test]
fn usage_errors_come_with_a_hint() {
    let bed = Bed::unreachable();
    for (arguments, said) in [
        (&["get", "pods"][..], "error: no cluster chosen\nhint: "),
        (&["-C", "m1"], "error: no command given for cluster m1\nhint: "),
        (
            &["-C", "m1", "compare", "deploy/web"],
            "error: compare needs at least two clusters, but only m1 is chosen\nhint: choose a second cluster: --cluster=m1,NAME\n",
        ),
        (&["-C", "m1", "config", "view"], "error: `kubectl config` works on kubeconfig files"),
        (
            &["--all-clusters", "-C", "m1", "get"],
            "error: --all-clusters and --cluster contradict each other\n",
        ),
        (&["--batch=1,0", "-C", "m1,m2", "get"], "error: --batch: invalid batch \"0\": expected a number"),
        (&["-C", "@pord", "get"], "error: no set @pord in "),
        (&["-C", "/(/,m1", "get"], "error: --cluster: invalid regular expression \"/(/\": "),
        (&["--cluster=../m2", "get", "pods"], "error: --cluster: invalid cluster name \"../m2\": "),
        (&["--cluster=", "get", "pods"], "error: --cluster: invalid cluster name \"\": it is empty\n"),
        (
            &["--cluster-selector=", "get", "pods"],
            "error: invalid value '' for '--cluster-selector <SELECTOR>': it is empty",
        ),
        (
            &["delete", "pod", "x", "--cluster-selector", " "],
            "error: invalid value ' ' for '--cluster-selector",
        ),
        (&["doctor", "--cluster-selector="], "error: invalid value '' for '--cluster-selector"),
        (
            &["access", "grant", "view", "--user=x", "--cluster-selector="],
            "error: invalid value '' for '--cluster-sel",
        ),
        (&["get", "pods", "--cluster"], "error: a value is required for '--cluster <CLUSTERS>'"),
        (&["--context=other", "-C", "m1", "get"], "error: no host: context \"other\" does not exist in "),
        (
            &["--dry-run=clusters", "install", "--image=i"],
            "error: `kubectl mc install` takes no --dry-run=clusters: ",
        ),
        (
            &["join", "m1", "--member-context=host", "--server=https://m", "--proxy-client-key=x"],
            "error: --proxy-client-key needs an https proxy, and there is no --proxy-url\nhint: ",
        ),
        (
            &[
                "join",
                "m1",
                "--member-context=host",
                "--server=https://m",
                "--proxy-url=https://p",
                "--proxy-client-key=x",
            ],
            "error: --proxy-client-key needs --proxy-client-certificate too\nhint: ",
        ),
        (
            &["join", "m1", "--renew", "--proxy-certificate-authority=x"],
            "error: the argument '--renew' cannot be used with '--proxy-certificate-authority <FILE>'",
        ),
        (&["unjoin", "m1", "--batch=1"], "error: `kubectl mc unjoin` takes no --batch: "),
        (&["clusters", "--exclude=m1"], "error: `kubectl mc clusters` takes no choice of clusters\n"),
        (
            &["-C", "m1", "get", "--server=https://x"],
            "error: --server and --cluster=m1 contradict each other\nhint: ",
        ),
    ] {
        let ran = bed.run(arguments);
        let (code, text) = ran.failed();
        assert_eq!(code, 2, "{arguments:?}: {text}");
        assert!(text.starts_with(said), "{arguments:?}: {text}");
    }
}

#[test]
fn fault_81_missing_kubectl_is_an_error_before_any_request() {
    let bed = Bed::unreachable().by_kubectl();
    let ran = bed.run_with("PATH", bed.path("home"), &["-C", "m1", "get", "pods"]);
    assert_eq!(
        ran.failed(),
        (
            127,
            "error: no kubectl in PATH\nhint: install kubectl, or set its path: KUBECTL_MC_KUBECTL=/path/to/kubectl\n"
        )
    );
}

#[test]
fn fault_81_hostile_cluster_name_is_quoted() {
    let bed = Bed::unreachable();
    for name in [
        "-x",
        "../m1",
        "m1/../m2",
        "\u{1b}[31mred",
        "m1\u{7}",
        "m1\nerror: x",
        "m1\u{202e}",
        "M1",
        "m1.m2",
        "%2e%2e",
        "m1#x",
    ] {
        let ran = bed.run(&[&format!("--cluster={name}"), "get", "pods"]);
        let (code, text) = ran.failed();
        assert_eq!(code, 2, "{name:?}: {text}");
        assert!(text.starts_with("error: "), "{name:?}: {text}");
        let foreign = |letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}');
        assert!(!text.contains(foreign), "{text:?}");
        let hint = text.lines().nth(1).unwrap_or_default();
        assert!(text.lines().count() == 2 && hint.starts_with("hint: "), "{text:?}");
    }
}

#[test]
fn fault_81_kubeconfig_of_a_thousand_contexts_works() {
    let bed = Bed::unreachable();
    let mut config =
        serde_json::json!({"current-context": "context-7", "clusters": [], "contexts": [], "users": []});
    for number in 0..1000 {
        let add = |list: &mut serde_json::Value, entry| list.as_array_mut().unwrap().push(entry);
        let server = format!("https://127.0.0.1:1/{number}");
        add(
            &mut config["clusters"],
            serde_json::json!({"name": format!("cluster-{number}"), "cluster": {"server": server}}),
        );
        add(
            &mut config["users"],
            serde_json::json!({"name": format!("user-{number}"), "user": {"token": "secret"}}),
        );
        let context =
            serde_json::json!({"cluster": format!("cluster-{number}"), "user": format!("user-{number}")});
        add(
            &mut config["contexts"],
            serde_json::json!({"name": format!("context-{number}"), "context": context}),
        );
    }
    std::fs::write(bed.path("kubeconfig"), config.to_string()).unwrap();
    bed.warm();
    for (arguments, number) in
        [(&["-C", "m1", "options"][..], 7), (&["--context=context-999", "-C", "m1", "options"], 999)]
    {
        let ran = bed.run(arguments);
        assert_eq!(ran.code, Some(42), "{ran:?}");
        let overlay = std::fs::read_to_string(ran.kubeconfig().0).unwrap();
        assert!(
            overlay.contains(&format!("https://127.0.0.1:1/{number}/apis/proxy.kubectl-mc.dev/")),
            "{overlay}"
        );
        assert!(overlay.contains(&format!("user-{number}\"")) && !overlay.contains("secret"), "{overlay}");
        assert!(overlay.len() < 2000, "the overlay holds the member and no more");
    }
}

#[test]
fn misspelled_verb_is_an_error_before_any_request() {
    let bed = Bed::answering((200, "application/json", "{}".to_owned()));
    for (given, meant) in
        [("joni", "join"), ("isntall", "install"), ("unjoin1", "unjoin"), ("clusers", "clusters")]
    {
        let said = format!(
            "error: unknown command {given:?}: no plugin kubectl-{given} is in PATH\n\
             hint: did you mean {meant}?\n"
        );
        assert_eq!(bed.run(&[given, "m1"]).failed(), (2, said.as_str()));
        assert_eq!(bed.run_with("KUBECTL_MC_CLUSTER", "m1", &[given, "m1"]).failed(), (2, said.as_str()));
        assert_eq!(bed.run(&["--all-clusters", given]).failed(), (2, said.as_str()));
    }
    assert!(bed.requests().is_empty());
}

#[test]
fn plugin_and_alias_win_over_a_misspelled_verb() {
    let bed = Bed::answering((200, "application/json", "{}".to_owned()));
    bed.script("bin/kubectl-joni", "#!/bin/sh\n");
    assert_eq!(bed.run(&["-C", "m1", "joni", "x"]).arguments(), ["joni", "x"]);
    bed.script("bin/kubectl-clusers-a_b", "#!/bin/sh\n");
    assert_eq!(bed.run(&["-C", "m1", "clusers", "a-b", "c"]).arguments(), ["clusers", "a-b", "c"]);
    assert_eq!(bed.run(&["-C", "m1", "clusers", "b"]).code, Some(2));
    bed.script("home/.kube/kuberc", "aliases: [{name: isntall, command: get}]");
    assert_eq!(bed.run(&["-C", "m1", "isntall"]).arguments(), ["isntall"]);
}

#[test]
fn help_of_a_kubectl_verb_needs_no_host() {
    let bed = Bed::unreachable();
    for nowhere in ["kubeconfig", "nowhere"] {
        let run = |words: &[&str]| bed.run_with("KUBECONFIG", bed.path(nowhere), words);
        assert_eq!(run(&["help", "get"]).arguments(), ["help", "get"]);
        assert_eq!(run(&["get", "--help"]).arguments(), ["get", "--help"]);
        assert!(run(&["help", "join"]).out.contains("Usage: kubectl mc join"));
    }
}

#[test]
fn builtin_verbs_take_the_cluster_as_flag_or_argument() {
    let bed = Bed::unreachable();
    let verbs: [(&[&str], &[&str]); 6] = [
        (&["join"], &["--member-context=gone"]),
        (&["unjoin"], &["--member-context=gone"]),
        (&["access", "grant"], &["view", "--user=x"]),
        (&["access", "revoke"], &["view", "--user=x"]),
        (&["access", "diff"], &[]),
        (&["access", "explain"], &["get", "pods"]),
    ];
    for (verb, rest) in verbs {
        let run = |flag: &[&str], argument: &[&str]| bed.run(&[flag, verb, argument, rest].concat());
        let named = run(&[], &["m1"]);
        assert!(
            !named.err.contains("m1 ") && named.code != Some(2) || named.err.contains("gone"),
            "{named:?}"
        );
        for same in [run(&["-C", "m1"], &[]), run(&["-C", "m1"], &["m1"]), run(&[], &["m1", "--cluster=m1"])]
        {
            assert_eq!(same, named, "{verb:?}");
        }
        let different = run(&["-C", "m1"], &["m2"]);
        assert!(
            different
                .failed()
                .1
                .starts_with("error: the argument m2 and --cluster=m1 name different clusters\n"),
            "{verb:?}: {different:?}"
        );
        let none = run(&[], &[]);
        assert!(none.failed().1.starts_with("error: no cluster named\nhint: "), "{verb:?}: {none:?}");
        assert_eq!((different.code, none.code), (Some(2), Some(2)));
    }
}

#[test]
fn hint_repeats_the_flags_of_the_host() {
    let bed = Bed::answering((404, "text/plain", "404 page not found".to_owned()));
    let file = bed.path("kubeconfig").display().to_string();
    let host = ["--context=host", "--kubeconfig", &file];
    for (words, hint) in [
        (&["clusters"][..], format!("runs: kubectl mc --context=host --kubeconfig={file} install; or")),
        (
            &["get", "pods", "-C", "m1"],
            format!("runs: kubectl mc --context=host --kubeconfig={file} install; or"),
        ),
        (&["access", "diff"], format!("`kubectl mc --context=host --kubeconfig={file} clusters` lists")),
    ] {
        let ran = bed.run(&[&host, words].concat());
        assert!(ran.err.contains(&hint), "{words:?}: {ran:?}");
    }
    let ran = bed.run(&["access", "diff"]);
    assert!(ran.err.contains("`kubectl mc clusters` lists"), "{ran:?}");
}

#[test]
fn missing_kubeconfig_files_are_named() {
    let bed = Bed::unreachable();
    let missing = bed.path("missing").display().to_string();
    let ran = bed.run_with("KUBECONFIG", &missing, &["-C", "m1", "get", "pods"]);
    let said = format!("error: no host: no kubeconfig names a current context in {missing} (no such file)\n");
    assert!(ran.failed().1.starts_with(&said), "{ran:?}");
    let ran = bed.run(&["--kubeconfig", &missing, "clusters"]);
    assert!(
        ran.failed().1.starts_with(&format!("error: cannot read kubeconfig {missing}: No such file")),
        "{ran:?}"
    );
}

#[test]
fn kubectl_without_home_uses_a_temporary_cache_folder() {
    let bed = Bed::answering((200, "application/json", "{}".to_owned())).by_kubectl();
    bed.script("bin/kubectl", "#!/bin/sh\necho \"[$KUBECACHEDIR]\"\n");
    let mut command = bed.command(&["-C", "m1", "get", "pods"]);
    std::fs::create_dir(bed.path("tmp")).unwrap();
    command.env_remove("HOME").env("TMPDIR", bed.path("tmp"));
    let ran = crate::bed::Ran::from(command.output().unwrap());
    let folder = std::fs::read_dir(bed.path("tmp")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(ran.arguments(), [folder.join("kube").to_str().unwrap()], "{ran:?}");
    assert!(!bed.path(".kube").exists() && !bed.path(".cache").exists());
    assert_eq!(bed.run(&["-C", "m1", "get", "pods"]).arguments(), [""]);
}

#[test]
fn version_names_plugin_and_sidecar() {
    let bed = Bed::serving(|path| {
        assert_eq!(path, "/pre/openapi/v3/apis/proxy.kubectl-mc.dev/v1alpha1");
        let info = r#"{"info": {"title": "kubectl-mc", "version": "v9.8.7", "x-git-commit": "abc"}}"#;
        (200, "application/json", info.to_owned())
    });
    let own = env!("CARGO_PKG_VERSION");
    let ran = bed.run(&["version"]);
    assert_eq!(
        (ran.out, ran.err.as_str()),
        (format!("Client Version: v{own}\nSidecar Version: v9.8.7 (commit abc)\n"), "")
    );
    let ran = bed.run(&["version", "-o", "json"]);
    let versions: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let server = serde_json::json!({"gitVersion": "v9.8.7", "gitCommit": "abc"});
    assert_eq!(
        (&versions["sidecarVersion"], &versions["clientVersion"]["gitVersion"]),
        (&server, &format!("v{own}").into())
    );
    assert!(
        bed.run(&["version", "-oyaml"])
            .out
            .contains("\nsidecarVersion:\n  gitCommit: abc\n  gitVersion: v9.8.7\n")
    );
    let member = Bed::answering((404, "text/plain", "404 page not found".to_owned()));
    let ran = member.run(&["version", "-o", "yaml"]);
    assert!(!ran.out.contains("sidecarVersion") && ran.err.contains("sidecar not installed"), "{ran:?}");
}
