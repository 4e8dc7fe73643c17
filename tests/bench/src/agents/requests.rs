//! Measures small requests over the three routes: throughput, and the CPU time of the sidecar and
//! of the processes that carry its connections.

use std::time::Duration;

use anyhow::Result;

use super::carriers::{Carrier, Carriers, DIRECT, TUNNEL};
use crate::table::{Goal, Spread, Table, median};
use crate::usage::Cpu;
use crate::wrk::{self, Load};

/// One run of wrk.
struct Round {
    load: Load,
    /// Microseconds of CPU time per request.
    sidecar: f64,
    carrier: f64,
}

impl Round {
    fn cpu(&self) -> f64 {
        self.sidecar + self.carrier
    }
}

pub(super) fn measure(carriers: &Carriers, quick: bool) -> Result<Table> {
    let mut table = Table::new(&[
        "connections",
        "way",
        "requests/s",
        "of direct",
        "p50 ms",
        "CPU µs/request: sidecar",
        "agent, or server and agent",
        "both, of direct",
    ]);
    for connections in CONNECTIONS {
        let mut turns: Vec<[Round; 3]> = Vec::new();
        for number in 0..if quick { 1 } else { ROUNDS } {
            let mut turn = [None, None, None];
            for step in 0..3 {
                let at = (number + step) % 3;
                turn[at] = Some(round(&carriers.ways[at], connections)?);
            }
            if let [Some(direct), Some(tunnel), Some(konnectivity)] = turn {
                turns.push([direct, tunnel, konnectivity]);
            }
        }
        for (at, carrier) in carriers.ways.iter().enumerate() {
            let middle = |of: fn(&Round) -> f64| median(turns.iter().map(|turn| of(&turn[at])));
            let against = |of: fn(&Round) -> f64, goal: Goal| {
                let ratios = Spread::of(turns.iter().map(|turn| of(&turn[at]) / of(&turn[0])));
                match (carrier.way.name, connections) {
                    (DIRECT, _) => "1".to_owned(),
                    (TUNNEL, JUDGED) => format!("{ratios} ({})", goal.verdict(ratios.median)),
                    _ => ratios.to_string(),
                }
            };
            table.row([
                connections.to_string(),
                carrier.way.name.to_owned(),
                format!("{:.0}", middle(|round| round.load.rate)),
                against(|round| round.load.rate, Goal::AtLeast(0.85)),
                format!("{:.2}", middle(|round| round.load.p50)),
                format!("{:.0}", middle(|round| round.sidecar)),
                match carrier.pids.is_empty() {
                    true => String::new(),
                    false => format!("{:.0}", middle(|round| round.carrier)),
                },
                against(Round::cpu, Goal::AtMost(1.35)),
            ]);
        }
    }
    Ok(table)
}

fn round(carrier: &Carrier, connections: usize) -> Result<Round> {
    let way = &carrier.way;
    let before = (Cpu::of(&way.pids)?.total, Cpu::of(&carrier.pids)?.total);
    let load = wrk::run(&way.url(), &way.headers(), connections, Duration::from_secs(1))?;
    let used = (Cpu::of(&way.pids)?.total - before.0, Cpu::of(&carrier.pids)?.total - before.1);
    let per_request = |seconds: f64| seconds * 1e6 / load.requests;
    Ok(Round { sidecar: per_request(used.0), carrier: per_request(used.1), load })
}

const CONNECTIONS: [usize; 2] = [1, JUDGED];
const JUDGED: usize = 16;
const ROUNDS: usize = 11;
