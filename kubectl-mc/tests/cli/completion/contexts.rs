//! Tests the completion of contexts of the kubeconfig, which needs neither a host nor a request.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::{complete, put_in_path};
use crate::bed::{Bed, Ran};

const CONTEXTS: [&str; 12] = [
    "kind-a",
    "kind-b",
    "arn:aws:eks:eu-1:1:cluster/one",
    "arn:aws:eks:eu-1:1:cluster/two",
    // These are not offered, because they have a meaning in a term, a shell or a terminal.
    "a,b",
    "@c",
    "st*r",
    "$(id)",
    "<({id,-u})",
    "default/[fd00::1]:6443/kube:admin",
    "two words",
    "esc\u{1b}[2J",
];

/// A kubeconfig whose server does not answer, and whose credential plugin would prompt.
fn bed() -> Bed {
    let bed = Bed::streaming(|_, stream| stream.hold());
    let context = |name: &str| {
        let user = if name == "kind-b" { "admin" } else { "u" };
        serde_json::json!({"name": name, "context": {"cluster": "c", "user": user}})
    };
    let login = serde_json::json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": bed.script("login", "#!/bin/sh\n: >ran\nread answer\n"),
        "interactiveMode": "IfAvailable",
    }});
    let kubeconfig = serde_json::json!({
        "clusters": [{"name": "c", "cluster": {"server": bed.server()}}],
        "users": [{"name": "u", "user": login}, {"name": "admin", "user": login}],
        "contexts": CONTEXTS.map(context), "current-context": "kind-a",
    });
    fs::write(bed.path("kubeconfig"), kubeconfig.to_string()).unwrap();
    fs::create_dir_all(bed.path("home/.config/kubectl-mc")).unwrap();
    let sets = "sets:\n  members: [eu-1, '@circle']\n  mixed: ['eu-1,context:kind-*']\n  nested: ['@mixed']\n  circle: ['@members']\n";
    fs::write(bed.path("home/.config/kubectl-mc/config.yaml"), sets).unwrap();
    bed
}

const ARN: &str = "arn:aws:eks:eu-1:1:cluster/";

#[test]
fn contexts_complete_without_a_host() {
    let bed = bed();
    for (words, expected) in [
        (&["--contexts", "-C", ""][..], "ARNone ARNtwo kind-a kind-b @mixed @nested :4"),
        (&["--contexts", "-C", "kind"], "kind-a kind-b :4"),
        (&["--contexts", "--cluster=kind"], "kind-a kind-b :4"),
        (&["--contexts", "-Ckind-b"], "-Ckind-b :4"),
        (&["get", "pods", "--contexts", "-C", "kind"], "kind-a kind-b :4"),
        (&["--contexts", "--exclude", "kind-a,kind"], "kind-a,kind-b :4"),
        (&["tail", "--contexts", "-C", "kind-b"], "kind-b :4"),
        (&["compare", "--contexts", "get", "-C", "kind-b"], "kind-b :4"),
        (&["clusters", "--contexts", "-C", "kind-b"], "kind-b :4"),
        (&["shell", "--contexts", "-C", "kind-b"], "kind-b :4"),
        // Names with the slash of a regular expression.
        (&["--contexts", "-C", "arn:aws:eks:eu-1:1:cluster/t"], "ARNtwo :4"),
        (&["--contexts", "-C", "arn:aws:eks:eu-1:1:cluster/one,kind-a"], "ARNone,kind-a :4"),
        (&["--contexts", "-C", "/^kind,"], ":4"),
        (&["-C", "context:/^kind,"], ":4"),
        (&["--contexts", "-C", "kind-*"], ":4"),
        (&["--contexts", "-C", "kind-a,!kind"], "kind-a,!kind-b :4"),
        (&["--contexts", "-C", "@"], "@mixed @nested :4"),
        // Beside members.
        (&["-C", "context:kind"], "context:kind-a context:kind-b :4"),
        (&["-C", "eu-1,context:kind-b"], "eu-1,context:kind-b :4"),
        // The selector restricts the names.
        (&["--context-selector", "user=admin", "-C", ""], "kind-b @mixed @nested :4"),
        (&["--contexts", "--context-selector", ""], "server= user= namespace= :6"),
        (&["get", "--context-selector=n"], "namespace= :6"),
        (&["clusters", "--context-selector", "u"], "user= :6"),
        (&["--context-selector", "user=a"], ":6"),
        // Arguments of the plugin's verbs are members.
        (&["clusters", "--contexts", ""], ":4"),
        (&["--contexts", "get", "pods", ""], ":4"),
    ] {
        assert_eq!(complete(&bed, words).join(" ").replace(ARN, "ARN"), expected, "{words:?}");
    }
    assert!(!bed.path("ran").exists(), "the credential plugin ran");
}

#[test]
fn contexts_complete_for_kubectl_with_everything_down() {
    let bed = bed();
    fs::remove_file(bed.path("bin/kubectl")).unwrap();
    put_in_path(&bed);
    symlink("kubectl-mc", bed.path("bin/kubectl_complete-mc")).unwrap();
    // This is how kubectl runs it. The default timeout of a completion ends before the server
    // answers.
    let plugin = bed.command(&["--contexts", "-C", "kind"]);
    let mut completion = Command::new(bed.path("bin/kubectl_complete-mc"));
    completion.args(plugin.get_args()).env_clear();
    completion.envs(plugin.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran: Ran = completion.output().unwrap().into();
    assert_eq!(ran.out, format!("kind-a\t{0}\nkind-b\t{0}\n:4\n", bed.server()), "{ran:?}");
}

#[test]
fn kubectl_completes_the_rest_on_the_context() {
    let bed = bed();
    bed.script(
        "bin/kubectl",
        "#!/bin/sh\nsed 's/.*\"current-context\":\"\\([^\"]*\\)\".*/on:\\1/' \"${KUBECONFIG%%:*}\"; echo; echo :4\n",
    );
    for words in [
        &["--contexts", "-C", "kind-b", "get", "pods", ""][..],
        &["get", "pods", "-C", "context:kind-b", ""],
        &["--context-selector=user=admin", "get", "pods", ""],
    ] {
        assert_eq!(complete(&bed, words), ["on:mc/kind-b", ":4"], "{words:?}");
    }
}
