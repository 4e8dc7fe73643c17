//! Tests `port-forward --keep`: the plugin restarts kubectl after a lost connection, and only if kubectl had
//! forwarded before.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::bed::Bed;

/// Loses its connection and its kubeconfig on the first run, and stays on the second.
const CUT_OFF: &str = "echo \"Forwarding from 127.0.0.1:8080 -> 80\"\n\
    if [ ! -e cut.$cluster ]; then : > cut.$cluster; rm \"${KUBECONFIG%%:*}\"; echo 'error: lost connection to pod' >&2; exit 1; fi\n\
    : > again.$cluster; exec sleep 1000";

#[test]
fn lost_port_forward_is_restarted() {
    for (clusters, cluster, prefix) in [("m1", "m1", ""), ("m1,m2", "m2", "m2 | ")] {
        for words in [
            &["--keep", "port-forward", "svc/web", "8080:80"],
            &["port-forward", "svc/web", "8080:80", "--keep"],
        ] {
            let bed = Bed::with_kubectl(CUT_OFF);
            let mut command = bed.command(&[&["--yes", "-C", clusters][..], words].concat());
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
            let lost = format!("{prefix}the connection was lost; trying again in 500ms");
            assert!(lines.into_iter().any(|line| line == lost), "{words:?}");
            while !bed.path(&format!("again.{cluster}")).exists() {
                std::thread::yield_now();
            }
            assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
            assert_eq!(child.wait().unwrap().code(), Some(130), "{words:?}");
        }
    }
}

#[test]
fn restarted_port_forward_gets_a_new_credential() {
    let bed = Bed::with_kubectl(
        "grep -o 'token-[0-9]*' \"${KUBECONFIG%%:*}\" > token.$cluster; mv token.$cluster tokens.$cluster.$$
        echo \"Forwarding from 127.0.0.1:8080 -> 80\"
        [ ! -e cut.$cluster ] || { : > again.$cluster; exec sleep 1000; }; : > cut.$cluster; exit 1",
    );
    let expired = r#"{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"status\": {\"token\": \"token-$n\", \"expirationTimestamp\": \"2020-01-01T00:00:00Z\"}}"#;
    bed.credential_plugin(&format!("echo run >> runs; n=$(wc -l < runs); echo \"{expired}\""));
    let words = ["--yes", "-C", "m1,m2", "--keep", "port-forward", "svc/web", "8080:80"];
    let mut child = bed.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !bed.path("again.m1").exists() {
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let files = std::fs::read_dir(bed.path(".")).unwrap().map(|entry| entry.unwrap().path());
    let runs = files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("tokens.m1."));
    let tokens: std::collections::BTreeSet<_> =
        runs.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert_eq!(tokens.len(), 2, "{tokens:?}");
}

#[test]
fn failed_port_forward_is_not_restarted() {
    let bed = Bed::with_kubectl("echo 'error: no such service' >&2; exit 7");
    let ran = bed.run(&["-C", "m1", "--keep", "port-forward", "svc/web", "8080:80"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(7), "error: no such service\n"));
    let ran = bed.run(&["--yes", "-C", "m1,m2", "--keep", "port-forward", "svc/web", "8080:80"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    // kubectl's other verbs do not take the flag, and another plugin gets it as an argument.
    let ran = bed.run(&["-C", "m1", "--keep", "get", "pods"]);
    assert_eq!(ran.failed().0, 2, "{ran:?}");
    let bed = Bed::with_kubectl("for word in \"$@\"; do echo \"[$word]\"; done");
    assert_eq!(bed.run(&["-C", "m1", "some-plugin", "--keep"]).arguments(), ["some-plugin", "--keep"]);
}
