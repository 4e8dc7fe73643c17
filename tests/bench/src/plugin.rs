//! Measures what the plugin adds to kubectl: the time from its start to the execve of kubectl, which is
//! `/bin/true` here, with all caches filled. Also compares a whole `get` on one cluster with
//! kubectl using a kubeconfig.

use std::ffi::OsStr;
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
        command.env("KUBECTL_MC_DIRECT", "0").stdin(Stdio::null()).stdout(Stdio::null());
        command
    };
    // The first run is a real one and fills the caches, including kubectl's.
    once(command(&[plugin]).env("KUBECTL_MC_KUBECTL", kubectl()?))?;

    let mut measured = Vec::new();
    let mut alone = Vec::new();
    for _ in 0..if quick { 50 } else { 500 } {
        measured.push(once(command(&[plugin]).env("KUBECTL_MC_KUBECTL", TRUE))?);
        alone.push(once(&mut command(&[Path::new(TRUE)]))?);
    }
    let added = median(measured.iter().zip(&alone).map(|(plugin, alone)| plugin - alone));
    // It must also work without a network, which shows that it sends no request.
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

/// Measures the list of 200 contexts of one kubeconfig, which takes no request: this is the time
/// that each command needs before its first request. The plugin and kubectl take turns.
pub(crate) fn measure_contexts(plugin: &Path, quick: bool) -> Result<Table> {
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, contexts_of_their_own(CONTEXTS))?;
    let command = |program: &Path, words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).env("KUBECONFIG", &kubeconfig).env("HOME", folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    };
    let kubectl = kubectl()?;
    let mut ours = command(plugin, &["clusters", "--contexts", "-o", "name"]);
    let mut kubectls = command(&kubectl, &["config", "get-contexts", "-o", "name"]);
    let (mut times, mut of_kubectl) = (Vec::new(), Vec::new());
    for turn in 0..if quick { 11 } else { 201 } {
        let [time, other] = [once(&mut ours)?, once(&mut kubectls)?];
        if turn > 0 {
            times.push(time);
            of_kubectl.push(other);
        }
    }
    let mut table = Table::new(&["contexts", "plugin", "goal", "kubectl config get-contexts"]);
    let time = median(times);
    table.row([
        CONTEXTS.to_string(),
        format!("{time:.1} ms"),
        Goal::AtMost(20.0).verdict(time),
        format!("{:.1} ms", median(of_kubectl)),
    ]);
    Ok(table)
}

/// A kubeconfig in which each context has a CA, a certificate and a key of the usual size.
fn contexts_of_their_own(count: usize) -> String {
    let data = |length: usize| "QUJD".repeat(length / 4);
    let (authority, certificate, key) = (data(1_500), data(1_500), data(2_200));
    let all = |line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let clusters = all(&|at| {
        format!(
            "- name: c{at}\n  cluster:\n    certificate-authority-data: {authority}\n    server: https://192.0.2.1:{at}\n"
        )
    });
    let contexts = all(&|at| {
        format!(
            "- name: context-{at}\n  context:\n    cluster: c{at}\n    namespace: default\n    user: u{at}\n"
        )
    });
    let users = all(&|at| {
        format!(
            "- name: u{at}\n  user:\n    client-certificate-data: {certificate}\n    client-key-data: {key}\n"
        )
    });
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: context-0\nclusters:\n{clusters}contexts:\n{contexts}users:\n{users}"
    )
}

/// Measures one command alternately: with kubectl at the same path with a kubeconfig, with the
/// plugin, and with both as kubectl's plugin.
pub(crate) fn measure_commands(site: &Site, plugin: &Path, quick: bool) -> Result<Table> {
    let folder = tempfile::tempdir()?;
    let kubectl = kubectl()?;
    std::os::unix::fs::symlink(plugin, folder.path().join("kubectl-mc"))?;
    let own = site.caller.kubeconfig();
    let context = folder.path().join("m1");
    let output = Command::new(plugin).args(["kubeconfig", "m1"]).env("KUBECONFIG", &own).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::write(&context, output.stdout)?;
    let both = std::env::join_paths([&context, &own])?;

    let command = |words: &[&str], program: &Path, choice: &[&str], kubeconfig: &OsStr, direct: &str| {
        let mut command = Command::new(program);
        command
            .args(choice)
            .args(["--namespace", &site.scene.name])
            .args(words)
            .env("KUBECONFIG", kubeconfig)
            .env("KUBECTL_MC_DIRECT", direct);
        command.env("HOME", folder.path()).env("PATH", folder.path()).env("KUBECTL_MC_KUBECTL", &kubectl);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    };
    let choice: &[&str] = &["--cluster=m1"];
    let get: &[&str] = &["get", "configmaps"];
    let mut table = Table::new(&["command", "way", "median", "of kubectl"]);
    for words in [get, &["auth", "can-i", "list", "configmaps"]] {
        let mut ways = vec![
            ("kubectl with a kubeconfig", command(words, &kubectl, &["--context=m1"], &both, "")),
            ("kubectl-mc", command(words, plugin, choice, own.as_os_str(), "")),
        ];
        if words == get {
            ways.extend([
                ("kubectl-mc, KUBECTL_MC_DIRECT=0", command(words, plugin, choice, own.as_os_str(), "0")),
                ("kubectl mc", command(words, &kubectl, &["mc", choice[0]], own.as_os_str(), "")),
                (
                    "kubectl mc, KUBECTL_MC_DIRECT=0",
                    command(words, &kubectl, &["mc", choice[0]], own.as_os_str(), "0"),
                ),
            ]);
        }
        by_turns(&words.join(" "), ways, quick, &mut table)?;
    }
    Ok(table)
}

fn by_turns(words: &str, ways: Vec<(&str, Command)>, quick: bool, table: &mut Table) -> Result<()> {
    let mut ways: Vec<_> = ways.into_iter().map(|(name, command)| (name, command, Vec::new())).collect();
    // The first turn fills the caches.
    for turn in 0..if quick { 11 } else { 101 } {
        for (_, command, times) in &mut ways {
            let time = once(command)?;
            if turn > 0 {
                times.push(time);
            }
        }
    }
    let kubectl = median(ways[0].2.iter().copied());
    for (name, _, times) in ways {
        let time = median(times);
        let ratio = time / kubectl;
        let of_kubectl = match name {
            "kubectl-mc" => Goal::AtMost(1.0).ratio(ratio),
            _ => format!("{ratio:.2}"),
        };
        table.row([words.to_owned(), name.to_owned(), format!("{time:.1} ms"), of_kubectl]);
    }
    Ok(())
}

/// Runs the command, which must succeed, and returns its duration in milliseconds.
fn once(command: &mut Command) -> Result<f64> {
    let begin = Instant::now();
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    let time = begin.elapsed();
    ensure!(status.success(), "{command:?}: {status}");
    Ok(time.as_secs_f64() * 1e3)
}

const TRUE: &str = "/bin/true";
const CONTEXTS: usize = 200;
