//! Measures the plugin on many clusters, all through one host: its own requests compared with a
//! kubectl for each cluster, the cost of a dead cluster, and the resources needed for many objects.
//! The members are one process.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::bed::{host, kubectl};
use harness::black_hole::BlackHole;
use harness::registration;
use harness::scene::EVERY_VERB;
use serde_json::json;

use crate::pods::ROOT;
use crate::role::Process;
use crate::site::{CERTIFIED_NAME, Site};
use crate::table::{Goal, Table, median};

/// A command on all small clusters.
const ALL: [&str; 4] = ["--cluster=many-*", "--namespace=default", "get", "pods"];

/// One run of a command.
pub(crate) struct Ran {
    milliseconds: f64,
    /// The peak memory that was seen, in megabytes, without its children.
    memory: f64,
    lines: usize,
}

pub(crate) fn measure(site: &Site, plugin: &Path, quick: bool) -> Result<Table> {
    let (members, rounds) = if quick { (10, 1) } else { (100, 5) };
    let (process, address) =
        Process::member(SocketAddr::new(harness::bed::bed()?.address, 0), &site.certificates)?;
    site.scene.let_in(&site.caller, &[], EVERY_VERB)?;
    site.scene.let_list(&site.caller)?;
    for number in 0..members {
        register(site, &format!("many-{number:03}"), address, 10)?;
    }
    for number in 0..10 {
        register(site, &format!("large-{number}"), address, 1000)?;
    }
    let commands = Commands { site, plugin, home: tempfile::tempdir()?, lines: members * 10 + 1, rounds };
    commands.until_all_answer()?;
    run(commands.by_kubectl(), 0)?;
    let mut rows = Rows(Table::new(&["command", "time", "most memory", "goal"]));
    let all_time = compare(&commands, members, &mut rows)?;
    dead_cluster(&commands, all_time, &mut rows)?;
    for (output, name) in [("wide", "as a table"), ("json", "as JSON")] {
        let words = ["--cluster=large-*", "--namespace=default", "get", "pods", "-o", output];
        let ran = run(commands.command(&words), 10_001)?;
        let goal = format!("memory {}", Goal::AtMost(100.0).verdict(ran.memory));
        rows.add(&format!("10 clusters, 1,000 pods each, {name}"), &[ran], goal);
    }
    drop(process);
    Ok(rows.0)
}

/// The commands on all small clusters, which print this many lines.
struct Commands<'a> {
    site: &'a Site,
    plugin: &'a Path,
    home: tempfile::TempDir,
    lines: usize,
    rounds: usize,
}

impl Commands<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.plugin);
        command.args(words).env("KUBECONFIG", self.site.caller.kubeconfig()).env("HOME", self.home.path());
        if let Ok(kubectl) = kubectl() {
            command.env("KUBECTL_MC_KUBECTL", kubectl);
        }
        command
    }

    fn all(&self) -> Command {
        self.command(&ALL)
    }

    fn eight_at_once(&self) -> Command {
        self.command(&[&["--cluster-concurrency=8"], &ALL[..]].concat())
    }

    fn by_kubectl(&self) -> Command {
        let mut command = self.eight_at_once();
        command.env("KUBECTL_MC_DIRECT", "0");
        command
    }

    fn shell_loop(&self, members: usize) -> Command {
        let shell =
            "for n in $(seq -w 0 \"$1\"); do \"$0\" --cluster=many-0$n --namespace=default get pods; done";
        let mut sh = Command::new("sh");
        sh.args(["-c", shell]).arg(self.plugin).arg(format!("{:02}", members - 1));
        sh.envs(self.command(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
        sh
    }

    fn repeat(&self, make: impl Fn() -> Command, lines: usize) -> Result<Vec<Ran>> {
        (0..self.rounds).map(|_| run(make(), lines)).collect()
    }

    /// Until the sidecar knows the last member and all caches are filled.
    fn until_all_answer(&self) -> Result<()> {
        let begin = Instant::now();
        while run(self.all(), self.lines).is_err() {
            ensure!(
                begin.elapsed() < Duration::from_secs(60),
                "not all members answer: {:?}",
                run(self.all(), self.lines).err()
            );
        }
        Ok(())
    }
}

struct Rows(Table);

impl Rows {
    /// Adds the median of some runs, and returns its time.
    fn add(&mut self, name: &str, runs: &[Ran], goal: String) -> f64 {
        let (time, memory) = (time(runs), most_memory(runs));
        self.0.row([name.to_owned(), format!("{time:.0} ms"), format!("{memory:.1} MB"), goal]);
        time
    }
}

pub(crate) fn time(runs: &[Ran]) -> f64 {
    median(runs.iter().map(|ran| ran.milliseconds))
}

pub(crate) fn most_memory(runs: &[Ran]) -> f64 {
    runs.iter().map(|ran| ran.memory).fold(0.0, f64::max)
}

/// Compares all clusters with one, with kubectl, and with a loop. Returns the time for all.
fn compare(commands: &Commands, members: usize, rows: &mut Rows) -> Result<f64> {
    let one = ["--cluster=many-00[0]", "--namespace=default", "get", "pods"];
    let single = commands.repeat(|| commands.command(&one), 11)?;
    let single = rows.add("one cluster, 10 pods", &single, String::new());
    let many = commands.repeat(|| commands.all(), commands.lines)?;
    let more = time(&many) - single;
    let goal = format!(
        "{more:.0} ms more ({}); memory {}",
        Goal::AtMost(250.0).verdict(more),
        Goal::AtMost(60.0).verdict(most_memory(&many))
    );
    let all_time = rows.add(&format!("{members} clusters, 10 pods each"), &many, goal);
    let eight = commands.repeat(|| commands.eight_at_once(), commands.lines)?;
    let eight = rows.add("the same, 8 clusters at once", &eight, String::new());
    let children = [run(commands.by_kubectl(), commands.lines)?];
    let times = time(&children) / eight;
    let goal = format!("{times:.0} times as long ({})", Goal::AtLeast(15.0).verdict(times));
    rows.add("the same by kubectl, 8 at once", &children, goal);
    let looped = run(commands.shell_loop(members), members * 11)?;
    let times = looped.milliseconds / all_time;
    rows.add("a shell's loop over all", &[looped], format!("{times:.0} times as long"));
    Ok(all_time)
}

/// One more cluster, which does not answer.
fn dead_cluster(commands: &Commands, all_time: f64, rows: &mut Rows) -> Result<()> {
    let hole = BlackHole::start()?;
    register(commands.site, "many-hole", hole.address, 10)?;
    not_ready("many-hole")?;
    wait_for_hole(commands)?;
    let dead = commands.repeat(|| commands.all(), commands.lines)?;
    let more = time(&dead) - all_time;
    let goal = format!("{more:.0} ms more ({})", Goal::AtMost(50.0).verdict(more));
    rows.add("one more that is known to be dead", &dead, goal);
    registration::remove("many-hole")
}

pub(crate) fn register(site: &Site, name: &str, address: SocketAddr, pods: usize) -> Result<()> {
    let ca = fs::read_to_string(&site.certificates.ca)?;
    registration::register(
        name,
        &json!({
            "server": format!("https://{address}{ROOT}{pods}"), "ca.crt": ca,
            "tls-server-name": CERTIFIED_NAME, "token": name,
        }),
    )
}

/// Writes what the controllers report of a member that they cannot reach.
fn not_ready(name: &str) -> Result<()> {
    let condition = json!({
        "type": "Ready", "status": "False", "reason": "Unreachable", "message": "it does not answer",
        "lastTransitionTime": "2026-11-21T12:00:00Z",
    });
    let object = json!({
        "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster", "metadata": {"name": name},
        "status": {"conditions": [condition]},
    });
    host()?.apply(&format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{name}/status"), &object)?;
    Ok(())
}

fn wait_for_hole(commands: &Commands) -> Result<()> {
    let begin = Instant::now();
    loop {
        let output = commands.all().output()?;
        if String::from_utf8_lossy(&output.stderr).contains("not ready") {
            return Ok(());
        }
        ensure!(begin.elapsed() < Duration::from_secs(60), "nobody says that it is not ready: {output:?}");
    }
}

/// Runs the command, which must print at least this many lines.
pub(crate) fn run(mut command: Command, lines: usize) -> Result<Ran> {
    let output = tempfile::tempfile()?;
    let begin = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let mut memory = 0.0;
    while child.try_wait()?.is_none() {
        // Its last moment is missed, but its memory has grown before that.
        if let Ok(most) = most_resident(child.id()) {
            memory = f64::max(memory, most);
        }
        std::thread::park_timeout(Duration::from_micros(500));
    }
    let milliseconds = begin.elapsed().as_secs_f64() * 1e3;
    let mut text = String::new();
    let mut output = output;
    std::io::Seek::rewind(&mut output)?;
    std::io::Read::read_to_string(&mut output, &mut text)?;
    let ran = Ran { milliseconds, memory, lines: text.lines().count() };
    ensure!(ran.lines >= lines, "{command:?} printed {} lines, not {lines}", ran.lines);
    Ok(ran)
}

/// The peak memory of a process, in megabytes.
pub(crate) fn most_resident(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0 / 1e6)
}
