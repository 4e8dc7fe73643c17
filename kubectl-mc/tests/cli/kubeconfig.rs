//! Tests `kubectl mc kubeconfig`, which writes contexts of members for other tools, without a secret.

use std::fs;

use insta::assert_snapshot;

use crate::bed::{Bed, Ran};

const LIST: &str = r#"{"kind": "ClusterList", "items": [
  {"metadata": {"name": "m1", "labels": {"env": "prod"}}}, {"metadata": {"name": "m2"}}]}"#;

fn bed() -> Bed {
    Bed::answering((200, "application/json", LIST.to_owned()))
}

/// Replaces the host's address and the folder, which differ from run to run.
fn masked(bed: &Bed, text: &str) -> String {
    let folder = bed.path("").display().to_string();
    text.replace(bed.server(), "http://host/pre").replace(folder.trim_end_matches('/'), "FOLDER")
}

fn whole(bed: &Bed, ran: &Ran) -> String {
    let Ran { code, out, err } = ran;
    masked(bed, &format!("exit {}\n--- stdout\n{out}--- stderr\n{err}", code.unwrap()))
}

/// Gives the host's user this credential.
fn credential(bed: &Bed, user: serde_json::Value) {
    let mut config: serde_json::Value = serde_json::from_str(&bed.read("kubeconfig")).unwrap();
    config["users"][0]["user"] = user;
    fs::write(bed.path("kubeconfig"), config.to_string()).unwrap();
}

#[test]
fn contexts_refer_to_the_existing_user_entry() {
    let bed = bed().of_known_hub();
    let ran = bed.run(&["kubeconfig"]);
    assert_snapshot!(whole(&bed, &ran), @r#"
    exit 0
    --- stdout
    apiVersion: v1
    clusters:
    - cluster:
        extensions:
        - extension:
            cluster: m1
            context: host
          name: kubectl-mc.dev/host
        server: http://host/pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy
      name: m1
    - cluster:
        extensions:
        - extension:
            cluster: m2
            context: host
          name: kubectl-mc.dev/host
        server: http://host/pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m2/proxy
      name: m2
    contexts:
    - context:
        cluster: m1
        extensions:
        - extension:
            cluster: m1
            context: host
          name: kubectl-mc.dev/host
        namespace: ns
        user: u
      name: m1
    - context:
        cluster: m2
        extensions:
        - extension:
            cluster: m2
            context: host
          name: kubectl-mc.dev/host
        namespace: ns
        user: u
      name: m2
    current-context: ""
    kind: Config
    --- stderr
    "#);
    assert_eq!(bed.requests().len(), 1);
}

#[test]
fn selection_flags_match_other_verbs() {
    let bed = bed();
    let names = |words: &[&str]| {
        let ran = bed.run(&[&["kubeconfig", "-ojson"], words].concat());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words:?}");
        let config: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let contexts = config["contexts"].as_array().unwrap().clone();
        contexts.iter().map(|context| context["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (words, expected) in [
        (&["m2", "m1"][..], &["m2", "m1"][..]),
        (&["-C", "m*", "--exclude=m1"], &["m2"]),
        (&["--cluster-selector=env=prod", "--context-prefix=prod/"], &["prod/m1", "prod/m2"]),
        (&["--all-clusters", "--where=metadata.labels.env=prod"], &["m1"]),
        (&["--exclude=m2"], &["m1"]),
    ] {
        assert_eq!(names(words), expected, "{words:?}");
    }
    bed.run(&["use", "m1"]);
    assert_eq!(names(&[]), ["m1", "m2"], "all, whatever cluster is in use");
}

#[test]
fn fleet_is_one_context() {
    let bed = bed();
    let ran = bed.run(&["kubeconfig", "--fleet", "--context-prefix=prod/"]);
    assert_snapshot!(whole(&bed, &ran), @r#"
    exit 0
    --- stdout
    apiVersion: v1
    clusters:
    - cluster:
        extensions:
        - extension:
            cluster: "*"
            context: host
          name: kubectl-mc.dev/host
        server: http://host/pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/*/proxy
      name: prod/fleet
    contexts:
    - context:
        cluster: prod/fleet
        extensions:
        - extension:
            cluster: "*"
            context: host
          name: kubectl-mc.dev/host
        namespace: ns
        user: u
      name: prod/fleet
    current-context: ""
    kind: Config
    --- stderr
    "#);
    assert_eq!(bed.requests().len(), 0);
    for words in
        [&["m1"][..], &["-C", "m1"], &["--all-clusters"], &["--merge", "--prune"], &["--hub=karmada"]]
    {
        let ran = bed.run(&[&["kubeconfig", "--fleet"], words].concat());
        assert_eq!(ran.failed().0, 2, "{words:?}");
    }
}

#[test]
fn fleet_context_is_not_pruned() {
    let bed = bed();
    let contexts = || {
        let config: serde_json::Value = serde_json::from_str(&bed.read("kubeconfig")).unwrap();
        let contexts = config["contexts"].as_array().unwrap().clone();
        contexts.iter().map(|context| context["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(bed.run(&["kubeconfig", "--merge", "--fleet=all"]).code, Some(0));
    assert_eq!(bed.run(&["kubeconfig", "--merge", "--prune", "m1"]).code, Some(0));
    assert_eq!(contexts(), ["host", "all", "m1"]);
}

#[test]
fn unknown_cluster_is_an_error() {
    let bed = bed();
    for verb in ["kubeconfig", "env", "shell"] {
        let ran = bed.run(&[verb, "m3"]);
        let (code, text) = ran.failed();
        assert!(code == 3 && text.starts_with("error: cluster unknown: m3\nhint: "), "{verb}: {text}");
    }
    let ran = Bed::unreachable().run(&["kubeconfig", "m3"]);
    assert!(ran.code == Some(0) && ran.err.starts_with("warning: the host did not confirm m3: "), "{ran:?}");
}

#[test]
fn standalone_copies_users_without_secrets() {
    let bed = bed();
    credential(
        &bed,
        serde_json::json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "./login", "args": ["get-token"],
            "interactiveMode": "Never",
        }}),
    );
    let token = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t0k"}}"#;
    bed.script("login", &format!("#!/bin/sh\necho '{token}'\n"));
    let ran = bed.run(&["kubeconfig", "m1", "--standalone"]);
    assert_snapshot!(whole(&bed, &ran), @r#"
    exit 0
    --- stdout
    apiVersion: v1
    clusters:
    - cluster:
        extensions:
        - extension:
            cluster: m1
            context: host
          name: kubectl-mc.dev/host
        server: http://host/pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy
      name: m1
    contexts:
    - context:
        cluster: m1
        extensions:
        - extension:
            cluster: m1
            context: host
          name: kubectl-mc.dev/host
        namespace: ns
        user: u
      name: m1
    current-context: m1
    kind: Config
    users:
    - name: u
      user:
        exec:
          apiVersion: client.authentication.k8s.io/v1
          args:
          - get-token
          command: FOLDER/login
          interactiveMode: Never
          provideClusterInfo: false
    --- stderr
    "#);
    credential(&bed, serde_json::json!({"client-certificate": "tls.crt", "client-key": "tls.key"}));
    let ran = bed.run(&["kubeconfig", "m1", "--standalone"]);
    let out = masked(&bed, &ran.out);
    assert!(out.contains("client-certificate: FOLDER/tls.crt\n    client-key: FOLDER/tls.key\n"), "{out}");
}

#[test]
fn standalone_refuses_a_secret() {
    let bed = bed();
    let ran = bed.run(&["kubeconfig", "m1", "--standalone"]);
    assert_snapshot!(whole(&bed, &ran), @r#"
    exit 2
    --- stdout
    --- stderr
    error: user "u" of context "host" (http://host/pre) holds a secret (token), which is not copied
    hint: without --standalone the contexts name the user of your kubeconfig: kubectl mc kubeconfig > members.yaml; export KUBECONFIG=~/.kube/config:members.yaml
    "#);
    let text = bed.read("kubeconfig").replace("http://", "http://jane:pass@");
    fs::write(bed.path("kubeconfig"), text).unwrap();
    let ran = bed.run(&["kubeconfig", "m1"]);
    assert!(ran.failed().1.contains("the server of context \"host\""), "{ran:?}");
    assert!(!ran.err.contains("pass@"), "{ran:?}");
}

#[test]
fn conflicting_context_name_is_an_error() {
    let bed = bed();
    let text = bed.read("kubeconfig").replace("\"host\"", "\"m1\"");
    fs::write(bed.path("kubeconfig"), text).unwrap();
    for words in [&["kubeconfig"][..], &["kubeconfig", "--merge"]] {
        let ran = bed.run(words);
        let (code, text) = ran.failed();
        assert_eq!(code, 2);
        assert!(
            text.contains("your kubeconfig has a context \"m1\" that is not one of the plugin for this host\nhint: choose other names by --context-prefix"),
            "{text}"
        );
    }
    assert_eq!(bed.run(&["kubeconfig", "--context-prefix=mc/"]).code, Some(0));
}

#[test]
fn merge_adds_updates_and_prunes() {
    let bed = bed();
    let yaml = "# mine\nclusters:\n- cluster:\n    server: SERVER\n  name: c\ncontexts:\n- context:\n    cluster: c\n    user: u\n  name: host\ncurrent-context: host\nusers:\n- name: u\n  user:\n    token: secret\n";
    let yaml = yaml.replace("SERVER", bed.server());
    fs::write(bed.path("kubeconfig"), &yaml).unwrap();
    let merge = |words: &[&str]| whole(&bed, &bed.run(&[&["kubeconfig", "--merge"], words].concat()));
    assert_snapshot!(merge(&["m1"]), @r#"
    exit 0
    --- stdout
    --- stderr
    contexts of members in FOLDER/kubeconfig: 1 added, 0 updated, 0 removed
    "#);
    assert_snapshot!(masked(&bed, &bed.read("kubeconfig")), @r#"
    # mine
    clusters:
    - cluster:
        server: http://host/pre
      name: c
    - cluster:
        extensions:
        - extension:
            cluster: m1
            context: host
          name: kubectl-mc.dev/host
        server: http://host/pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy
      name: m1
    contexts:
    - context:
        cluster: c
        user: u
      name: host
    - context:
        cluster: m1
        extensions:
        - extension:
            cluster: m1
            context: host
          name: kubectl-mc.dev/host
        user: u
      name: m1
    current-context: host
    users:
    - name: u
      user:
        token: secret
    "#);
    // The current context is now a member, and the plugin still finds its host.
    fs::write(
        bed.path("kubeconfig"),
        bed.read("kubeconfig").replace("current-context: host", "current-context: m1"),
    )
    .unwrap();
    assert_eq!(bed.run(&["clusters", "-o", "name"]).code, Some(0));
    let request = bed.requests().pop().unwrap();
    assert!(request.starts_with("GET /pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters "), "{request}");
    fs::write(
        bed.path("kubeconfig"),
        bed.read("kubeconfig").replace("cluster: m1\n        context", "cluster: gone\n        context"),
    )
    .unwrap();
    assert_snapshot!(merge(&["m2", "--prune"]), @r#"
    exit 0
    --- stdout
    --- stderr
    contexts of members in FOLDER/kubeconfig: 1 added, 0 updated, 1 removed; its current context "m1" is gone
    "#);
    assert_eq!(bed.run(&["kubeconfig", "--prune"]).failed().0, 2);
    assert_eq!(bed.run(&["kubeconfig", "--merge", "--standalone"]).failed().0, 2);
}
