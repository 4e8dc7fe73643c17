//! Tests the user's policy for credential plugins in a kuberc, as kubectl 1.35 and later enforce
//! it.

use std::fs;
use std::path::PathBuf;

use crate::bed::{Bed, Ran};

const LIST: &str =
    r#"{"kind": "ClusterList", "items": [{"metadata": {"name": "m1"}}, {"metadata": {"name": "m2"}}]}"#;

/// A host whose user has a credential plugin, and a kubectl. Both leave a file when they run.
fn bed() -> Bed {
    let bed = Bed::answering((200, "application/json", LIST.to_owned()));
    bed.credential_plugin(
        ": >ran\necho '{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {\"token\": \"t\"}}'",
    );
    // A cluster to join, with the same user.
    let mut kubeconfig: serde_json::Value = serde_json::from_str(&bed.read("kubeconfig")).unwrap();
    let cluster = serde_json::json!({"name": "d", "cluster": {"server": "https://127.0.0.1:1"}});
    let context = serde_json::json!({"name": "member", "context": {"cluster": "d", "user": "u"}});
    kubeconfig["clusters"].as_array_mut().unwrap().push(cluster);
    kubeconfig["contexts"].as_array_mut().unwrap().push(context);
    fs::write(bed.path("kubeconfig"), kubeconfig.to_string()).unwrap();
    bed.kubectl("[ \"$1\" = version ] || : >kubectl-ran\necho kubectl");
    bed
}

/// Writes a kuberc with this policy.
fn kuberc(bed: &Bed, name: &str, policy: &str) -> PathBuf {
    fs::create_dir_all(bed.path("home/.kube")).unwrap();
    let file = bed.path(name);
    let text = format!("apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n{policy}\n");
    fs::write(&file, text).unwrap();
    file
}

const KUBERC: &str = "home/.kube/kuberc";
const DENY: &str = "credentialPluginPolicy: DenyAll";

/// Every kind of command that may run a credential plugin.
const COMMANDS: [&[&str]; 19] = [
    &["clusters"],
    &["version"],
    &["doctor"],
    &["access", "list"],
    &["access", "explain", "m1", "get", "pods"],
    &["audit", "0a1b2c3d-0000-4000-8000-000000000000"],
    &["install", "--dry-run", "--image=i"],
    &["join", "m4", "--member-context=member"],
    &["unjoin", "m1"],
    &["-C", "m1", "get", "pods"],
    &["-C", "m1", "apply", "-f", "-"],
    &["-C", "m1", "auth", "can-i", "get", "pods"],
    &["-C", "m1,m2", "get", "pods"],
    &["-C", "m1,m2", "describe", "pods"],
    &["--contexts", "-C", "host", "get", "pods"],
    &["--contexts", "-C", "host", "describe", "pods"],
    &["--contexts", "-C", "host", "tail", "web"],
    &["__complete", "-C", ""],
    &["__complete", "-C", "m1", "get", "pods", ""],
];

#[test]
fn fault_81_denied_plugin_runs_by_no_command() {
    let bed = bed();
    let file = kuberc(&bed, KUBERC, DENY);
    let plugin = bed.path("plugin");
    let expected = format!(
        "getting credentials of user \"u\": plugin {plugin:?} not allowed: policy set to \"DenyAll\" in {}",
        file.display()
    );
    for words in COMMANDS {
        let ran = bed.run(words);
        assert!(!bed.path("ran").exists(), "{words:?} ran the plugin: {ran:?}");
        assert!(!bed.path("kubectl-ran").exists(), "{words:?} ran kubectl, which may be older: {ran:?}");
        if words[0] == "__complete" {
            assert_eq!(ran, Ran::new(0, ":4\n", ""), "{words:?}");
        } else if words[0] == "doctor" {
            assert!(ran.out.contains(&expected), "{words:?}: {ran:?}");
        } else if words[0] != "version" {
            assert!(ran.err.contains(&expected) && ran.code != Some(0), "{words:?}: {ran:?}");
        }
    }
    assert!(bed.requests().is_empty());
}

#[test]
fn fault_81_allowlist_permits_the_listed_plugins_only() {
    let bed = bed();
    for (entries, is_permitted) in [
        (format!("[{{command: {}}}]", bed.path("plugin").display()), true),
        (format!("[{{name: {}}}]", bed.path("plugin").display()), true),
        ("[{command: plugin}]".to_owned(), false),
        ("[{command: another}, {name: login}]".to_owned(), false),
    ] {
        let policy = format!("credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: {entries}");
        kuberc(&bed, KUBERC, &policy);
        let ran = bed.run(&["clusters"]);
        assert_eq!(bed.path("ran").exists(), is_permitted, "{entries}: {ran:?}");
        let refusal = format!(
            "plugin path {:?} is not permitted by the credential plugin allowlist",
            bed.path("plugin")
        );
        assert_eq!(ran.err.contains(&refusal), !is_permitted, "{entries}: {ran:?}");
        let _ = fs::remove_file(bed.path("ran"));
    }
}

#[test]
fn policy_is_read_from_the_file_that_kubectl_reads() {
    let bed = bed();
    let given = kuberc(&bed, "given", DENY).display().to_string();
    let flag = format!("--kuberc={given}");
    let ran_with = |variables: &[(&str, &str)], words: &[&str]| {
        let _ = fs::remove_file(bed.path("ran"));
        let mut command = bed.command(words);
        let ran = Ran::from(command.envs(variables.iter().copied()).output().unwrap());
        (bed.path("ran").exists(), ran)
    };
    let get = ["-C", "m1,m2", "describe", "pods"];
    let by_flag = [&get[..], &[&flag]].concat();
    for (variables, words, runs) in [
        (&[][..], &get[..], true),
        (&[], &by_flag, false),
        (&[("KUBERC", given.as_str())], &get, false),
        (&[("KUBERC", "/nowhere")], &by_flag, false),
        (&[("KUBERC", given.as_str()), ("KUBECTL_KUBERC", "False")], &get, true),
        (&[("KUBERC", given.as_str()), ("KUBECTL_KUBERC", "0")], &get, false),
        (&[("KUBERC", "off")], &get, true),
        // A named file that does not exist might hold a policy.
        (&[("KUBERC", "/nowhere")], &get, false),
        (&[("KUBERC", "off")], &by_flag, false),
    ] {
        let (has_run, ran) = ran_with(variables, words);
        assert_eq!(has_run, runs, "{variables:?} {words:?}: {ran:?}");
    }
    kuberc(&bed, KUBERC, DENY);
    assert!(!ran_with(&[], &get).0);
    assert!(ran_with(&[("KUBERC", "off")], &get).0);
}

#[test]
fn fault_81_policy_that_cannot_be_read_denies() {
    let bed = bed();
    for policy in [
        "credentialPluginPolicy: denyall",
        "credentialPluginPolicy: Allowlist",
        "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: []",
        "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{}]",
        "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: ./a}]",
        "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: a, name: b}]",
        "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: plugin, digest: x}]",
        "credentialPluginPolicy: AllowAll\ncredentialPluginAllowlist: [{command: a}]",
        "credentialPluginAllowlist: [{command: a}]",
        "credentialpluginpolicy: DenyAll",
        "credentialPluginPolicy: [DenyAll",
    ] {
        kuberc(&bed, KUBERC, policy);
        let ran = bed.run(&["clusters"]);
        assert!(!bed.path("ran").exists() && ran.code != Some(0), "{policy}: {ran:?}");
        assert!(ran.err.contains("/.kube/kuberc"), "{policy}: {ran:?}");
    }
    kuberc(&bed, KUBERC, "credentialPluginPolicy: AllowAll");
    assert_eq!(bed.run(&["clusters"]).code, Some(0));
}

#[test]
fn user_without_a_plugin_needs_no_policy() {
    let bed = bed();
    kuberc(&bed, KUBERC, DENY);
    let ran = bed.run(&["-C", "m1", "describe", "pods", "--token=other"]);
    assert_eq!(ran.out, "kubectl\n", "{ran:?}");
    assert!(!bed.path("ran").exists());
}

/// The output of these commands is parsed, so other preferences do not apply to them.
#[test]
fn fault_81_kubectl_of_a_parsed_output_keeps_the_policy() {
    let bed = bed();
    bed.kubectl(
        "cp \"$KUBERC\" kept.$cluster; echo \"$KUBECTL_KUBERC $*\" >words.$cluster; echo NAME; echo web",
    );
    let plugin = bed.path("plugin").display().to_string();
    let policy = format!(
        "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{{name: {plugin}}}]\naliases: [{{name: g, command: get}}]"
    );
    let file = kuberc(&bed, "given", &policy).display().to_string();
    let ran = bed.run(&["-C", "m1,m2", "get", "pods", "--kuberc", &file]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for cluster in ["m1", "m2"] {
        let kept: serde_json::Value = serde_json::from_str(&bed.read(&format!("kept.{cluster}"))).unwrap();
        assert_eq!(
            kept,
            serde_json::json!({
                "apiVersion": "kubectl.config.k8s.io/v1beta1", "kind": "Preference",
                "credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": [{"name": plugin}],
            })
        );
        let words = bed.read(&format!("words.{cluster}"));
        assert!(words.starts_with(' ') && !words.contains(&file), "{words}");
    }
    assert_eq!(bed.left(), Vec::<String>::new());
}

#[test]
fn kubectl_of_a_parsed_output_has_no_other_preferences() {
    let bed = bed();
    bed.kubectl("echo \"$KUBECTL_KUBERC\" >gate.$cluster; echo NAME; echo web");
    kuberc(&bed, KUBERC, "aliases: [{name: g, command: get}]");
    let ran = bed.run(&["-C", "m1,m2", "get", "pods"]);
    assert_eq!((ran.code, bed.read("gate.m1").as_str()), (Some(0), "false\n"), "{ran:?}");
}
