//! Measures the hop through another replica, and the memory of an idle agent.

use std::time::Duration;

use anyhow::Result;
use harness::own_agent::{self, OwnAgent, data_of};
use harness::own_fleet::OwnFleet;
use harness::usage;
use serde_json::json;

use super::carriers::agent;
use crate::machine;
use crate::requests::{Round, round};
use crate::site::Site;
use crate::table::{Goal, Table, median};

/// Measures, alternately, a replica that has the tunnel and one that connects through it.
pub(super) fn measure(site: &Site, quick: bool) -> Result<Table> {
    let (fleet, files) = (OwnFleet::new("bench-hop")?, tempfile::tempdir()?);
    let server = format!("https://{}", site.probe_address());
    own_agent::register(CLUSTER, &fleet.namespace, &data_of("probe")?)?;
    let claimed = json!({"status": {"namespace": fleet.namespace, "conditions": []}});
    fleet.host.merge(&format!("{MEMBER_CLUSTERS}/{CLUSTER}/status"), &claimed)?;
    let has = fleet.replica(files.path(), &["--controllers="])?;
    let peers = format!("--peers={}", has.sidecar.url.trim_start_matches("https://"));
    let asks = fleet.replica(files.path(), &["--controllers=", &peers])?;
    let _agent = agent(CLUSTER, &server, &has.sidecar.url)?;
    let by = |replica, name| site.probe.sidecar.by(replica).to_cluster(name, CLUSTER);
    let ways = [by(&has.sidecar, "the replica with the tunnel"), by(&asks.sidecar, "another replica")];
    ways.iter().try_for_each(|way| way.warm_up())?;

    let mut turns: Vec<[Round; 2]> = Vec::new();
    for _ in 0..if quick { 1 } else { ROUNDS } {
        turns.push([round(&ways[0], 1)?, round(&ways[1], 1)?]);
    }
    let mut table =
        Table::new(&["asked", "requests/s", "p50 ms", "more", "CPU µs/request of the asked replica"]);
    for (at, way) in ways.iter().enumerate() {
        let middle = |of: fn(&Round) -> f64| median(turns.iter().map(|turn| of(&turn[at])));
        let added = median(turns.iter().map(|turn| turn[at].load.p50 - turn[0].load.p50));
        table.row([
            way.name.to_owned(),
            format!("{:.0}", middle(|round| round.load.rate)),
            format!("{:.2}", middle(|round| round.load.p50)),
            match at {
                0 => String::new(),
                _ => format!("{added:.2} ({})", Goal::AtMost(0.3).verdict(added)),
            },
            format!("{:.0}", middle(|round| round.cpu.total)),
        ]);
    }
    Ok(table)
}

/// Measures the memory of an agent whose tunnel carries nothing but pings.
pub(super) fn memory(agent: &OwnAgent) -> Result<Table> {
    machine::idle(SETTLED);
    let resident = usage::resident(agent.pid()?)? as f64 / 1e6;
    let mut table = Table::new(&["resident memory", "goal"]);
    table.row([format!("{resident:.1} MB"), Goal::AtMost(10.0).verdict(resident)]);
    Ok(table)
}

const CLUSTER: &str = "bench-hop";
const MEMBER_CLUSTERS: &str = "/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters";
const ROUNDS: usize = 15;
const SETTLED: Duration = Duration::from_secs(20);
