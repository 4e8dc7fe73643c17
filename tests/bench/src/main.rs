//! `bench` measures the figures of `docs/dev/benchmarks.md` in a running test bed and prints them as
//! Markdown.
//!
//! - [`site`], [`way`]: the measured routes to a member, and their caller
//! - [`nginx`], [`wrk`], [`stream`]: the programs that serve, send requests and stream
//! - [`mod@requests`], [`streams`], [`plugin`]: the figures compared with nginx and kubectl
//! - [`routes`]: through the host and directly
//! - [`against`]: one build of the sidecar compared with another; [`front_proxy`]: the host's
//!   connection to them
//! - [`watches`], [`tunnels`], [`isolation`], [`fleet`]: the figures of scale
//! - [`observability`]: the cost of audit events and of traces
//! - [`agents`]: a member through its agent, directly and through konnectivity; [`agent_fleet`]:
//!   thousands of agents
//! - [`controllers`]: the cost of members that get no requests; [`computed`]: the cost of computing
//!   rights and decisions
//! - [`hubs`]: the sidecar compared with another hub's server, on the same members
//! - [`authz`]: Cluster Authorization at a kube-apiserver
//! - [`visible_clusters`]: the cost of showing each caller only their own clusters
//! - [`many_clusters`]: the plugin's figures of scale; [`fleet_view`]: those of the fleet view;
//!   [`pods`]: the members' answers
//! - [`role`], [`member`], [`bare`]: what this program does when it starts itself
//! - [`usage`]: resources of processes; [`machine`]: the machine; [`table`]: the output

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;
use harness::bed::{bed, sidecar};
use testbed::programs::OPTIMIZED;

use crate::role::Role;
use crate::site::Site;
use crate::table::{Goal, Table};

mod against;
mod agent_fleet;
mod agents;
mod authz;
mod bare;
mod computed;
mod controllers;
mod fleet;
mod fleet_view;
mod front_proxy;
mod hubs;
mod isolation;
mod machine;
mod many_clusters;
mod member;
mod nginx;
mod observability;
mod plugin;
mod pods;
mod requests;
mod role;
mod routes;
mod site;
mod stream;
mod streams;
mod table;
mod tunnels;
mod usage;
mod visible_clusters;
mod watches;
mod way;
mod wrk;

/// Measures the sidecar and the plugin; started by `testbed run --members 2 --node m1 --sidecar PATH --`
#[derive(Parser)]
struct Cli {
    /// The plugin to measure
    #[arg(long, default_value = "target/release/kubectl-mc")]
    plugin: PathBuf,
    /// The program that measures the index of access: `cargo build --release --package kubectl-mc-api --examples`
    #[arg(long, default_value = "target/release/examples/access_cost")]
    access_cost: PathBuf,
    /// The program that measures the decisions of Cluster Authorization, built like that of access
    #[arg(long, default_value = "target/release/examples/decide_cost")]
    decide_cost: PathBuf,
    /// How long the controllers are watched while nothing happens; what they do least often is every six minutes
    #[arg(long, value_name = "SECONDS", default_value_t = 360)]
    idle_seconds: u64,
    /// Number of agents of agent-fleet
    #[arg(long, value_name = "COUNT", default_value_t = 5_000)]
    agents: usize,
    /// Another build of the sidecar to measure the bed's against, in place of all other figures
    #[arg(long, value_name = "PROGRAM")]
    against: Option<PathBuf>,
    /// Only see that everything works: one short round, figures that mean little
    #[arg(long)]
    quick: bool,
    /// Only these figures
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Figure>,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Figure {
    Memory,
    Plugin,
    Probe,
    Requests,
    Streams,
    Watches,
    Tunnels,
    Isolation,
    Observability,
    Fleet,
    Controllers,
    AccessIndex,
    VisibleClusters,
    ManyClusters,
    FleetView,
    Routes,
    Agents,
    AgentStreams,
    AgentFleet,
    /// Needs a bed with Karmada's server: `testbed run --karmada host`; no other figure does
    Hubs,
    /// Needs a bed with such a host: `testbed run --spare k1`; no other figure does
    Authz,
}

impl Cli {
    fn wants(&self, figure: Figure) -> bool {
        self.only.is_empty() || self.only.contains(&figure)
    }
}

impl Figure {
    /// Whether it is measured only when it is asked for, in a bed of its own.
    fn needs_its_own_bed(self) -> bool {
        [Self::Hubs, Self::Authz].contains(&self)
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // An error here cannot be reported any more.
            let _ = writeln!(std::io::stderr(), "bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let files = usage::raise_open_files();
    if let Some(role) = &cli.role {
        return role.play();
    }
    let plugin = std::path::absolute(&cli.plugin)?;
    print("Machine", &machine::describe()?)?;
    if let Some(program) = &cli.against {
        for (of, table) in against::measure(&Site::new()?, program, cli.quick)? {
            print(&format!("Requests {of}: this build against {}", program.display()), &table)?;
        }
        return Ok(());
    }
    let is_optimized = std::env::var_os(OPTIMIZED).is_some();
    ensure!(
        is_optimized || cli.quick || !(cli.wants(Figure::Agents) || cli.wants(Figure::Hubs)),
        "konnectivity and Karmada's server are compiled for tests, not for speed: set {OPTIMIZED}=yes before testbed run"
    );
    without_site(cli, &plugin)?;
    if cli.only.iter().all(|figure| figure.needs_its_own_bed()) && !cli.only.is_empty() {
        return Ok(());
    }
    let site = Site::new()?;
    requests(cli, &site, &plugin, files)?;
    fleets(cli, &site, &plugin)
}

/// The figures that come before the site of the others, or need no site.
fn without_site(cli: &Cli, plugin: &Path) -> Result<()> {
    // This comes before the sidecar has had any request.
    if cli.wants(Figure::Memory) {
        print("Memory of an idle sidecar, two members", &memory()?)?;
    }
    if cli.wants(Figure::VisibleClusters) {
        let [lists, beside] = visible_clusters::measure(cli.quick)?;
        print("Lists of 1,000 clusters", &lists)?;
        print("Another caller beside such lists", &beside)?;
    }
    if cli.only.contains(&Figure::Hubs) {
        let [real, without_cost] = hubs::measure(cli.quick)?;
        print("Hubs: one small ConfigMap of a member of Karmada", &real)?;
        print("Hubs: the same from a member at no cost", &without_cost)?;
        let [at_ports, by_host] = hubs::objects(cli.quick)?;
        print("Hubs: one Cluster through the sidecar in front of Karmada's server", &at_ports)?;
        print("Hubs: the same through the host's APIService", &by_host)?;
        print("Hubs: start of a sidecar with many members", &hubs::start(cli.quick)?)?;
    }
    if cli.only.contains(&Figure::Authz) {
        computed::measure("Cluster Authorization: decisions", &cli.decide_cost)?;
        let [figures, judged] = authz::measure(plugin, cli.quick)?;
        print("Cluster Authorization: requests", &figures)?;
        print("Cluster Authorization: what the webhook costs", &judged)?;
    }
    Ok(())
}

/// The plugin, requests and streams.
fn requests(cli: &Cli, site: &Site, plugin: &Path, files: usize) -> Result<()> {
    if cli.wants(Figure::Plugin) {
        print("Plugin: start to kubectl's execve", &plugin::measure(site, plugin, cli.quick)?)?;
        print("Plugin: one cluster, beside kubectl", &plugin::measure_commands(site, plugin, cli.quick)?)?;
        print("Plugin: contexts of a kubeconfig", &plugin::measure_contexts(plugin, cli.quick)?)?;
    }
    if cli.wants(Figure::Requests) {
        print("Requests: one small ConfigMap of a member", &requests::measure(&site.member, cli.quick)?)?;
    }
    if cli.wants(Figure::Routes) {
        print("Routes: one small ConfigMap of a member", &routes::measure(site, &bed()?.host, cli.quick)?)?;
    }
    if cli.wants(Figure::Probe) {
        print(
            "Requests: the same answer from a member that costs nothing",
            &requests::measure(&site.probe, cli.quick)?,
        )?;
    }
    if cli.wants(Figure::Streams) {
        print("Streams: kubectl exec and port-forward", &streams::measure(site, plugin, cli.quick)?)?;
    }
    if cli.wants(Figure::Watches) {
        watches::measure(site, files, cli.quick)?;
    }
    if cli.wants(Figure::Tunnels) {
        print("Idle tunnels: exec over WebSocket", &tunnels::measure(site, cli.quick)?)?;
    }
    if cli.wants(Figure::Isolation) {
        print("Isolation: one member beside two bad ones", &isolation::measure(site, cli.quick)?)?;
    }
    if cli.wants(Figure::Observability) {
        print(
            "Observability: requests with audit events and traces",
            &observability::measure(site, cli.quick)?,
        )?;
    }
    Ok(())
}

/// Many members, and many agents. Last, because they register many members.
fn fleets(cli: &Cli, site: &Site, plugin: &Path) -> Result<()> {
    if cli.wants(Figure::Fleet) {
        print("Fleet: what registered members cost a request", &fleet::measure(site, cli.quick)?)?;
    }
    if cli.wants(Figure::Controllers) {
        controllers::measure(site, Duration::from_secs(cli.idle_seconds), cli.quick)?;
    }
    if cli.wants(Figure::Agents) {
        agents::measure(site, cli.quick)?;
    }
    if cli.wants(Figure::AgentStreams) {
        agents::measure_streams(site, cli.quick)?;
    }
    if cli.wants(Figure::AgentFleet) {
        agent_fleet::measure(site, if cli.quick { cli.agents.min(500) } else { cli.agents }, cli.quick)?;
    }
    if cli.wants(Figure::AccessIndex) {
        computed::measure("Access: 1,000 members and 1,000 bindings", &cli.access_cost)?;
    }
    if cli.wants(Figure::ManyClusters) {
        print("The plugin on many clusters: get pods", &many_clusters::measure(site, plugin, cli.quick)?)?;
    }
    if cli.wants(Figure::FleetView) {
        print("The fleet view: get pods", &fleet_view::measure(site, plugin, cli.quick)?)?;
    }
    Ok(())
}

fn memory() -> Result<Table> {
    bed()?;
    let resident = usage::resident(sidecar()?.pid)?;
    let mut table = Table::new(&["resident memory", "goal"]);
    table.row([format!("{resident:.1} MB"), Goal::AtMost(15.0).verdict(resident)]);
    Ok(table)
}

pub(crate) fn print(title: &str, table: &Table) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "### {title}\n\n{table}")?;
    Ok(stdout.flush()?)
}
