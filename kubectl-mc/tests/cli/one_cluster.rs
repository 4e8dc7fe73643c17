//! Tests kubectl on one cluster: the arguments and the kubeconfig that it receives, and that input,
//! output and exit code are kubectl's own.

use std::io::Write;
use std::process::Stdio;

use crate::bed::Bed;

const OK: (u16, &str, &str) = (200, "application/json", "{}");

fn bed() -> Bed {
    Bed::answering((OK.0, OK.1, OK.2.to_owned()))
}

#[test]
fn fault_81_kubectl_gets_other_arguments_and_sets_the_exit_code() {
    let bed = bed().by_kubectl();
    let ran = bed.run(&[
        "-n",
        "x",
        "--cluster=m1",
        "get",
        "pods",
        "-l",
        "",
        "--context=host",
        "--",
        "--cluster=y",
        "a b",
    ]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(42), ""));
    assert_eq!(
        ran.arguments(),
        ["-n", "x", "get", "--context=mc/m1", "pods", "-l", "", "--", "--cluster=y", "a b"]
    );
}

#[test]
fn kubectl_replaces_the_plugin_under_its_own_name() {
    if !std::path::Path::new("/proc/self/cmdline").exists() {
        return;
    }
    let ran = bed().run_with("KUBECTL_MC_KUBECTL", "/bin/cat", &["--cluster=m1", "/proc/self/cmdline"]);
    assert_eq!(ran.out, "kubectl\0/proc/self/cmdline\0");
}

#[test]
fn kubectl_reads_standard_input() {
    let bed = bed();
    let mut child = bed
        .command(&["-C", "m1", "apply", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"kind: Pod\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().ends_with("\nkind: Pod\n"));
}

#[test]
fn overlay_leads_to_the_member_and_holds_no_secret() {
    let bed = bed().by_kubectl();
    let ran = bed.run(&["--cluster=m1", "get", "pods"]);
    let (overlay, rest) = ran.kubeconfig();
    assert_eq!(rest, bed.path("kubeconfig").display().to_string());
    let overlay = std::fs::read_to_string(overlay).unwrap();
    assert!(overlay.contains("/pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy\""), "{overlay}");
    assert!(!overlay.contains("secret"), "{overlay}");
    assert_eq!(bed.run(&["--cluster=m1", "get", "nodes"]).kubeconfig().0, ran.kubeconfig().0);
}

#[test]
fn variables_choose_cluster_and_context() {
    let bed = bed();
    assert_eq!(
        bed.run_with("KUBECTL_MC_CLUSTER", "m1", &["version"]).arguments(),
        ["version", "--context=mc/m1"]
    );
    let ran = bed.run_with("KUBECTL_MC_CONTEXT", "other", &["-C", "m1", "get", "pods"]);
    assert_eq!(ran.failed().0, 2);
    assert!(ran.err.starts_with("error: no host: context \"other\" does not exist in "), "{}", ran.err);
}

#[test]
fn kubeconfig_flag_becomes_part_of_the_variable() {
    let bed = bed().by_kubectl();
    let file = bed.path("kubeconfig").display().to_string();
    let ran = bed.run_with("KUBECONFIG", "/nowhere", &["get", "pods", "--kubeconfig", &file, "-C", "m1"]);
    assert_eq!(
        (ran.arguments(), ran.kubeconfig().1),
        (vec!["get", "--context=mc/m1", "pods"], file.as_str())
    );
}

#[test]
fn raw_path_depends_on_the_version_of_kubectl() {
    let root = "/pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy";
    for (version, expected) in [("v1.33.4", format!("{root}/version")), ("v1.34.0", "/version".to_owned())] {
        let bed = bed();
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = version ]; then echo '{{\"clientVersion\": {{\"gitVersion\": \"{version}\"}}}}'; exit; fi\necho \"[$4]\""
        );
        bed.script("bin/kubectl", &script);
        assert_eq!(bed.run(&["-C", "m1", "get", "--raw", "/version"]).arguments(), [expected.as_str()]);
    }
    let bed = bed();
    bed.script("bin/kubectl", "#!/bin/sh\necho 'Client Version: v1.20'");
    let ran = bed.run(&["-C", "m1", "get", "--raw", "/version"]);
    assert_eq!(ran.failed().0, 1);
    assert!(ran.err.contains("cannot determine the version of "), "{}", ran.err);
}

#[test]
fn kubectl_that_does_not_start_is_an_error() {
    let bed = bed().by_kubectl();
    let broken = bed.script("broken", "#!/nowhere/sh\n");
    let ran = bed.run_with("KUBECTL_MC_KUBECTL", &broken, &["-C", "m1", "get", "pods"]);
    assert_eq!(ran.failed().0, 126);
    assert!(ran.err.starts_with(&format!("error: cannot start {}: ", broken.display())), "{}", ran.err);
}
