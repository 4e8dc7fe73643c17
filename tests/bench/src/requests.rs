//! Measures many small requests: throughput, latency, and the proxy's CPU time for each request.

use std::time::Duration;

use anyhow::Result;

use crate::table::{Goal, Spread, Table, median};
use crate::usage::Cpu;
use crate::way::{Way, Ways};
use crate::wrk::{self, Load};

/// Numbers of connections, and of one-second rounds. There are many short rounds because other load
/// on the machine changes within seconds, and the most rounds where that has the most effect.
pub(crate) const CONNECTIONS: [(usize, usize); 3] = [(1, 63), (16, 21), (64, 21)];

/// One run of wrk.
pub(crate) struct Round {
    pub(crate) load: Load,
    /// CPU time of the proxy per request, in microseconds.
    pub(crate) cpu: Cpu,
}

/// Measures all routes in turn, so that other load on the machine affects them alike.
pub(crate) fn measure(ways: &Ways, quick: bool) -> Result<Table> {
    let mut table = Table::new(&[
        "connections",
        "way",
        "requests/s",
        "of nginx",
        "p50 ms",
        "p99 ms",
        "CPU µs/request (user + system)",
        "of nginx",
    ]);
    for (connections, rounds) in CONNECTIONS {
        let rounds = if quick { 1 } else { rounds };
        let (mut sidecar, mut nginx, mut direct) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..rounds {
            // The order changes too, so that no route always follows the same one.
            let mut turns =
                [(&ways.sidecar, &mut sidecar), (&ways.nginx, &mut nginx), (&ways.direct, &mut direct)];
            turns.rotate_left(number % 3);
            for (way, rounds) in turns {
                rounds.push(round(way, connections)?);
            }
        }
        for (way, rounds) in [(&ways.sidecar, &sidecar), (&ways.nginx, &nginx), (&ways.direct, &direct)] {
            let middle = |of: fn(&Round) -> f64| median(rounds.iter().map(of));
            // Each round is compared with nginx's round from the same time.
            let against = |of: fn(&Round) -> f64, goal: Goal| {
                let ratios =
                    Spread::of(rounds.iter().zip(&nginx).map(|(round, nginx)| of(round) / of(nginx)));
                match way.name {
                    "sidecar" => format!("{ratios} ({})", goal.verdict(ratios.median)),
                    "nginx" => String::from("1"),
                    _ => format!("{:.2}", ratios.median),
                }
            };
            let judged = way.name == "sidecar";
            // The latency beyond that of nginx in the same round. It has a goal where there are
            // enough connections and not all cores are busy.
            let latency = |of: fn(&Round) -> f64, goal: Goal| {
                let added = median(rounds.iter().zip(&nginx).map(|(round, nginx)| of(round) - of(nginx)));
                match judged && connections == 16 {
                    true => format!("{:.2} ({added:+.2}, {})", middle(of), goal.verdict(added)),
                    false => format!("{:.2}", middle(of)),
                }
            };
            table.row([
                connections.to_string(),
                way.name.to_owned(),
                format!("{:.0}", middle(|round| round.load.rate)),
                against(|round| round.load.rate, Goal::AtLeast(0.95)),
                latency(|round| round.load.p50, Goal::AtMost(0.3)),
                latency(|round| round.load.p99, Goal::AtMost(2.0)),
                match way.pids.as_slice() {
                    [] => "".to_owned(),
                    _ => format!(
                        "{:.0} ({:.0} + {:.0})",
                        middle(|round| round.cpu.total),
                        middle(|round| round.cpu.user),
                        middle(|round| round.cpu.system)
                    ),
                },
                if way.pids.is_empty() {
                    String::new()
                } else {
                    against(|round| round.cpu.total, Goal::AtMost(1.2))
                },
            ]);
        }
    }
    Ok(table)
}

pub(crate) fn round(way: &Way, connections: usize) -> Result<Round> {
    let before = Cpu::of(&way.pids)?;
    let load = wrk::run(&way.url(), &way.headers(), connections, Duration::from_secs(1))?;
    let used = Cpu::of(&way.pids)? - before;
    let per_request = |seconds: f64| seconds * 1e6 / load.requests;
    let cpu = Cpu {
        total: per_request(used.total),
        user: per_request(used.user),
        system: per_request(used.system),
    };
    Ok(Round { load, cpu })
}
