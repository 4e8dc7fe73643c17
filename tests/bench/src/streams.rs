//! Measures streams over each route, and through the host: megabytes per second, and CPU time per
//! megabyte.

use std::path::Path;

use anyhow::Result;
use harness::bed::{kubectl, member};

use crate::site::Site;
use crate::stream::{Kubectl, POD_NAME, SERVE, Stream, megabytes};
use crate::table::{Goal, Table, median};
use crate::usage::Cpu;

/// One stream.
#[derive(Clone, Copy)]
struct Round {
    /// Megabytes per second.
    rate: f64,
    /// CPU time of the proxy in milliseconds per megabyte.
    cpu: f64,
}

pub(crate) fn measure(site: &Site, plugin: &Path, quick: bool) -> Result<Table> {
    let mut table = Table::new(&["stream", "way", "MB/s", "of direct", "CPU ms/MB", "of nginx"]);
    if member("m1")?.node.is_none() {
        return Ok(table);
    }
    site.scene.pod(POD_NAME, SERVE)?;
    let (rounds, mebibytes) = if quick { (1, 16) } else { (ROUNDS, MEBIBYTES) };
    let home = tempfile::tempdir()?;
    let kubectl = kubectl()?;
    let mut paths = Vec::new();
    for way in site.member.all() {
        paths.push((&*kubectl, Vec::new(), way.kubeconfig(home.path())?, way.pids.clone()));
    }
    let through_host = vec!["--cluster=m1".to_owned()];
    let sidecar = site.member.sidecar.pids.clone();
    paths.push((plugin, through_host, site.caller.kubeconfig(), sidecar));
    for stream in Stream::ALL {
        let mut results: [Vec<Round>; 4] = Default::default();
        for number in 0..=rounds {
            for ((program, leading, kubeconfig, pids), results) in paths.iter().zip(&mut results) {
                let (leading, home) = (leading.clone(), home.path());
                let kubectl = Kubectl { program, leading, kubeconfig, home, namespace: &site.scene.name };
                // The first round is short and not counted: it fills the caches of kubectl.
                let mebibytes = if number == 0 { 2 } else { mebibytes };
                let before = Cpu::of(pids)?;
                let rate = stream.run(&kubectl, mebibytes)?;
                let used = Cpu::of(pids)? - before;
                if number > 0 {
                    results.push(Round { rate, cpu: used.total * 1e3 / megabytes(mebibytes) });
                }
            }
        }
        let [sidecar, nginx, direct, host] = &results;
        for (name, results) in
            [("sidecar", sidecar), ("nginx", nginx), ("direct", direct), ("host and sidecar", host)]
        {
            let against = |other: &[Round], of: fn(&Round) -> f64| {
                median(results.iter().zip(other).map(|(round, other)| of(round) / of(other)))
            };
            let rate = against(direct, |round| round.rate);
            let cpu = against(nginx, |round| round.cpu);
            table.row([
                stream.name().to_owned(),
                name.to_owned(),
                format!("{:.0}", median(results.iter().map(|round| round.rate))),
                match name {
                    "sidecar" => Goal::AtLeast(0.9).ratio(rate),
                    "direct" => String::new(),
                    _ => format!("{rate:.2}"),
                },
                match name {
                    "direct" => String::new(),
                    _ => format!("{:.2}", median(results.iter().map(|round| round.cpu))),
                },
                match name {
                    "sidecar" => Goal::AtMost(1.5).ratio(cpu),
                    "host and sidecar" => format!("{cpu:.2}"),
                    _ => String::new(),
                },
            ]);
        }
    }
    Ok(table)
}

const ROUNDS: usize = 3;
const MEBIBYTES: usize = 128;
