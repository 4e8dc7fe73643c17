//! What the plugin adds to kubectl: the time from its start to the execve of kubectl, which is `/bin/true`
//! here, with everything that it keeps already kept.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use harness::bed::kubectl;

use crate::site::Site;
use crate::table::{Goal, Table, median};

pub(crate) fn measure(site: &Site, plugin: &Path, quick: bool) -> Result<Table> {
    let home = tempfile::tempdir()?;
    let command = |program: &[&Path]| {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).args([
            "--cluster=m1",
            "--namespace",
            &site.scene.name,
            "get",
            "configmaps",
        ]);
        command.env("KUBECONFIG", site.caller.kubeconfig()).env("HOME", home.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    };
    // The first run is a real one and fills the caches, kubectl's among them.
    once(command(&[plugin]).env("KUBECTL_MC_KUBECTL", kubectl()?))?;

    let mut measured = Vec::new();
    let mut alone = Vec::new();
    for _ in 0..if quick { 50 } else { 500 } {
        measured.push(once(command(&[plugin]).env("KUBECTL_MC_KUBECTL", TRUE))?);
        alone.push(once(&mut command(&[Path::new(TRUE)]))?);
    }
    let added = median(measured.iter().zip(&alone).map(|(plugin, alone)| plugin - alone));
    // Without a network it must do the same: it asks nobody.
    let cut_off = [Path::new("unshare"), Path::new("--net"), plugin];
    let asks_nobody = once(command(&cut_off).env("KUBECTL_MC_KUBECTL", TRUE)).is_ok();

    let mut table = Table::new(&["plugin and /bin/true", "/bin/true", "plugin", "goal", "without a network"]);
    table.row([
        format!("{:.2} ms", median(measured)),
        format!("{:.2} ms", median(alone)),
        format!("{added:.2} ms"),
        Goal::AtMost(5.0).verdict(added),
        if asks_nobody { "works" } else { "**fails**" }.to_owned(),
    ]);
    Ok(table)
}

/// Runs it, which must succeed; how long it took in milliseconds.
fn once(command: &mut Command) -> Result<f64> {
    let begin = Instant::now();
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    let time = begin.elapsed();
    ensure!(status.success(), "{command:?}: {status}");
    Ok(time.as_secs_f64() * 1e3)
}

const TRUE: &str = "/bin/true";
