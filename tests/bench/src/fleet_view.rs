//! Measures the fleet view on many members: kubectl at the view compared with the plugin's own requests to each member, both
//! at the same sidecar, and the sidecar's memory for a list of many objects. The members are one process.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use harness::bed::{bed, kubectl};
use harness::caller::Caller;
use harness::http1::{SIDECAR_NAME, member_path};
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::scene::EVERY_VERB;
use serde_json::json;
use tempfile::TempDir;

use crate::many_clusters::{Ran, most_memory, most_resident, register, run, time};
use crate::role::Process;
use crate::site::Site;
use crate::table::{Goal, Table};
use crate::usage::{Cpu, resident};

pub(crate) fn measure(site: &Site, plugin: &Path, quick: bool) -> Result<Table> {
    let (members, large, rounds) = if quick { (10, 2, 1) } else { (1_000, 100, 5) };
    let (process, address) = Process::member(SocketAddr::new(bed()?.address, 0), &site.certificates)?;
    let view = View::new(site, plugin, address, members)?;
    let mut table = Table::new(&["command", "time", "CPU of the sidecar", "most memory", "goal"]);
    let lines = members * PODS + 1;
    let (mut by_plugin, mut by_view) = (Figures::default(), Figures::default());
    view.run(view.at_members(), lines)?;
    view.run(view.at_view(), lines)?;
    // By turns: the machine's speed changes.
    for _ in 0..rounds {
        by_plugin.add(view.run(view.at_members(), lines)?);
        by_view.add(view.run(view.at_view(), lines)?);
    }
    let ratio = time(&by_view.runs) / time(&by_plugin.runs);
    by_plugin.row(&mut table, &format!("{members} members, {PODS} pods each: the plugin"), String::new());
    by_view.row(&mut table, "the same: kubectl at the view", Goal::AtMost(1.2).ratio(ratio));
    for number in 0..large {
        register(site, &format!("view-large-{number:03}"), address, LARGE)?;
    }
    let view = View::new(site, plugin, address, 0)?;
    let before = resident(view.sidecar.pid())?;
    let mut raw = view.kubectl()?;
    raw.args(["get", "--raw", "/api/v1/namespaces/default/pods"]);
    let mut objects = Figures::default();
    objects.add(view.run(raw, 1)?);
    let growth = most_resident(view.sidecar.pid())? - before;
    let goal = format!("{growth:.1} MB more at the sidecar ({})", Goal::AtMost(32.0).verdict(growth));
    objects.row(
        &mut table,
        &format!("{} pods as JSON: kubectl at the view", large * LARGE + members * PODS),
        goal,
    );
    drop(process);
    Ok(table)
}

/// Runs of one command.
#[derive(Default)]
struct Figures {
    runs: Vec<Ran>,
    cpu: f64,
}

impl Figures {
    fn add(&mut self, (ran, cpu): (Ran, f64)) {
        self.runs.push(ran);
        self.cpu += cpu;
    }

    fn row(&self, table: &mut Table, name: &str, goal: String) {
        let cpu = self.cpu / self.runs.len() as f64 * 1e3;
        let (time, memory) = (time(&self.runs), most_memory(&self.runs));
        let [time, cpu] = [time, cpu].map(|milliseconds| format!("{milliseconds:.0} ms"));
        table.row([name.to_owned(), time, cpu, format!("{memory:.1} MB"), goal]);
    }
}

/// A sidecar that serves the view, and a caller of it.
struct View<'a> {
    plugin: &'a Path,
    sidecar: OwnSidecar,
    callers: [Caller; 2],
    home: TempDir,
}

impl<'a> View<'a> {
    fn new(site: &Site, plugin: &'a Path, address: SocketAddr, members: usize) -> Result<Self> {
        for number in 0..members {
            register(site, &format!("view-{number:04}"), address, PODS)?;
        }
        let flags = ["--fleet-view", "--max-merged-requests=0"];
        let sidecar = OwnSidecar::with(&Difference { flags: &flags, ..Difference::default() })?;
        let at = |below: &str| -> Result<Caller> {
            let caller = Caller::service_account(&site.scene.name, "viewer")?;
            site.scene.let_in(&caller, &[], EVERY_VERB)?;
            site.scene.let_list(&caller)?;
            caller.edit(|config| {
                config["clusters"][0]["cluster"] = json!({
                    "server": format!("{}{below}", sidecar.sidecar.url),
                    "certificate-authority": sidecar.sidecar.ca_certificate,
                    "tls-server-name": SIDECAR_NAME,
                });
            })
        };
        let callers = [at("")?, at(&member_path("*", ""))?];
        Ok(Self { plugin, sidecar, callers, home: tempfile::tempdir()? })
    }

    fn at_members(&self) -> Command {
        let mut command = Command::new(self.plugin);
        command.args(["--cluster=view-*", "--namespace=default", "get", "pods"]);
        command.env("KUBECONFIG", self.callers[0].kubeconfig()).env("HOME", self.home.path());
        command.env("KUBECTL_MC_HUB", "own");
        command
    }

    fn kubectl(&self) -> Result<Command> {
        let mut command = Command::new(kubectl()?);
        command.env("KUBECONFIG", self.callers[1].kubeconfig()).env("HOME", self.home.path());
        Ok(command)
    }

    fn at_view(&self) -> Command {
        let mut command = self.kubectl().unwrap_or_else(|_| Command::new("kubectl"));
        command.args(["--namespace=default", "get", "pods"]);
        command
    }

    /// Runs a command, and returns the sidecar's CPU seconds too.
    fn run(&self, command: Command, lines: usize) -> Result<(Ran, f64)> {
        let pid = [self.sidecar.pid()];
        let before = Cpu::of(&pid)?;
        let ran = run(command, lines)?;
        let cpu = (Cpu::of(&pid)? - before).total;
        ensure!(cpu > 0.0, "the sidecar did nothing");
        Ok((ran, cpu))
    }
}

const PODS: usize = 10;
const LARGE: usize = 1_000;
