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
