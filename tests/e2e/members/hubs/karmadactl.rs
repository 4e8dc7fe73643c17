//! karmadactl's commands work unchanged with the sidecar in front of Karmada's own server, with an identity
//! that the member accepts.

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::karmada::Karmada;
use harness::scene::Scene;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use testbed::programs;

use super::karmada_in_place::{JOINED, admin_plugin, allow, start};

#[test]
fn karmadactl_gets_execs_and_reads_logs() -> Result<()> {
    let karmada = start("karmadactl")?;
    let scene = Scene::new("karmadactl")?;
    let user = Caller::certificate("e2e-karmadactl-user", &["e2e-karmadactl-ops"])?;
    karmada.join(JOINED, &scene.member)?;
    Karmada::unified_auth(&scene.member, &[&user.user], &[], &["e2e-karmadactl-ops"])?;
    scene.allow(&user)?;
    allow(&karmada, &user)?;
    karmada.fleet.until(JOINED, "Ready", "True", "Ready")?;
    scene.pod("shell", "echo began; sleep 1000000")?;
    let service = karmada.service()?;
    let authority = karmada.sidecar.sidecar.ca_certificate.display().to_string();
    let front = ["--service", &service, "--certificate-authority", &authority];
    admin_plugin()?.ok(&[&["hub-api", "apply", "--for=karmada"], &front[..]].concat())?;

    let karmadactl = Tool::client(programs::karmadactl(), &user)?;
    let of_members = ["-n", &scene.name, "--operation-scope=members"];
    let cluster = format!("--cluster={JOINED}");
    // The host refreshes the group's discovery at its own interval.
    let listed = eventually("karmadactl lists pods of the member", SOON, || {
        let words = [&["get", "pods", "--clusters", JOINED], &of_members[..]].concat();
        karmadactl.ok(&words).map(Some).context("karmadactl get")
    })?;
    let row = listed.lines().find(|line| line.starts_with("shell")).with_context(|| listed.clone())?;
    ensure!(row.contains(JOINED) && row.contains("Running"), "{listed}");
    let exec = |input: &[u8], words: &[&str]| {
        karmadactl.run_with_input(
            &[&["exec", "-i", "shell", &cluster], &of_members[..], &["--"], words].concat(),
            input,
        )
    };
    ensure!(exec(b"", &["echo", "here"])?.success()? == "here\n");
    // The end of standard input reaches the command, and its exit code comes back.
    ensure!(exec(b"three\nlines\nhere\n", &["wc", "-l"])?.success()?.trim() == "3");
    ensure!(exec(b"", &["sh", "-c", "exit 7"])?.code == 7);
    let logs = karmadactl.ok(&["logs", "shell", "-n", &scene.name, &cluster])?;
    ensure!(logs == "began\n", "{logs}");
    // Karmada's own server answers for the control plane.
    let clusters = karmadactl.ok(&["get", "clusters", JOINED])?;
    ensure!(clusters.contains(JOINED), "{clusters}");
    admin_plugin()?.ok(&["hub-api", "remove", "--for=karmada"]).map(drop)
}
