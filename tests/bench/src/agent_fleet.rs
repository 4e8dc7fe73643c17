//! Measures thousands of agents, each with its own account and token on the host: their tunnels to
//! one replica and to three, how tunnels come back after a replica is killed, and how a replica
//! asks the others about members to which it has no tunnel.
//!
//! - [`registered`]: the members on the host; [`crowd`]: their agents, in one process
//! - [`replicas`]: the sidecars, with [`balancer`]s before them; [`questions`]: a replica without tunnels

use std::time::Duration;

use anyhow::Result;

use crate::site::Site;
use crate::table::{Goal, Table};
use crate::{machine, print};

pub(crate) mod balancer;
pub(crate) mod crowd;
mod questions;
mod registered;
mod replicas;

use registered::Registered;
use replicas::{Replicas, State};

pub(crate) fn measure(site: &Site, agents: usize, quick: bool) -> Result<()> {
    let idle = Duration::from_secs(if quick { 15 } else { 30 });
    let registered = Registered::new(site, agents)?;
    let mut open = Table::new(&[
        "replicas",
        "tunnels",
        "all open after",
        "CPU of the replicas until then",
        "resident memory of a replica before",
        "after",
        "of one tunnel",
        "CPU at rest, of one core",
    ]);
    // With --tunnels=2 an agent looks for a second replica, even if there is none.
    for (count, tunnels) in [(1, 1), (1, 2), (3, 2)] {
        let mut replicas = Replicas::start(&registered, count)?;
        machine::idle(SETTLED);
        let before = replicas.state()?;
        let crowd = replicas.agents(&registered, tunnels, site.probe_address())?;
        let wanted = agents * tunnels.min(count);
        let opened = replicas.until_open(wanted)?;
        let connected = replicas.state()?;
        machine::idle(SETTLED);
        let rest = replicas.state()?;
        machine::idle(idle);
        let after = replicas.state()?;
        let each = (after.resident - before.resident) / wanted as f64;
        open.row([
            format!("{count}, agents with --tunnels={tunnels}"),
            wanted.to_string(),
            format!("{:.1} s", opened.as_secs_f64()),
            format!("{:.1} s", connected.cpu - before.cpu),
            megabytes(&before, count),
            megabytes(&after, count),
            format!("{:.1} KiB ({})", each / 1024.0, Goal::AtMost(40.0).verdict(each / 1024.0)),
            format!("{:.1} %", (after.cpu - rest.cpu) / idle.as_secs_f64() * 100.0),
        ]);
        if count == 3 {
            print(
                "Agent fleet: one question about each of many members",
                &questions::measure(site, &registered, &replicas)?,
            )?;
            print("Agent fleet: one of three replicas killed", &killed(&mut replicas, agents)?)?;
        }
        drop(crowd);
    }
    print("Agent fleet: tunnels", &open)
}

fn killed(replicas: &mut Replicas, agents: usize) -> Result<Table> {
    replicas.kill_last()?;
    let before = replicas.state()?;
    let back = replicas.until_open(2 * agents)?.as_secs_f64();
    let cpu = replicas.state()?.cpu - before.cpu;
    let mut table = Table::new(&["lost tunnels", "all back after", "CPU of the other two", "of one core"]);
    table.row([
        (2 * agents).saturating_sub(before.tunnels).to_string(),
        format!("{back:.1} s ({})", Goal::AtMost(30.0).verdict(back)),
        format!("{cpu:.1} s"),
        format!("{:.2} ({})", cpu / back, Goal::AtMost(1.0).verdict(cpu / back)),
    ]);
    Ok(table)
}

fn megabytes(state: &State, replicas: usize) -> String {
    format!("{:.1} MB", state.resident / 1e6 / replicas as f64)
}

/// Time for memory to be released, and for work that continues after a start to finish.
const SETTLED: Duration = Duration::from_secs(15);
