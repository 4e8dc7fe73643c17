//! `mc-sidecar check`, which `helm test` runs in a pod, needs no rights and detects a missing
//! sidecar.

use anyhow::{Context, Result, ensure};
use harness::bed::bed;
use harness::caller::Caller;
use harness::tool::Tool;

#[test]
fn check_needs_no_right_and_fails_on_a_host_without_sidecar() -> Result<()> {
    let pid = bed()?.sidecar.as_ref().context("no sidecar")?.pid;
    let program = format!("/proc/{pid}/exe").into();
    let caller = Caller::service_account("default", "default")?;
    let checker = Tool::client(program, &caller)?;
    let host = format!("--kubeconfig={}", caller.kubeconfig().display());
    let output = checker.run(&["check", &host, "--timeout=10s"])?;
    ensure!(output.code == 0, "{output:?}");
    let member = &bed()?.cluster("m1")?.kubeconfig;
    let member = format!("--kubeconfig={}", member.display());
    checker
        .run(&["check", &member, "--timeout=5s"])?
        .failure(&["error: the host does not reach a sidecar for v1alpha1.proxy.kubectl-mc.dev: ", "404"])
        .map(drop)
}
