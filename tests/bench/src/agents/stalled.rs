//! Measures how a stream whose client does not read affects other requests to the same member.

use std::time::Duration;

use anyhow::Result;
use harness::own_sidecar::OwnSidecar;
use harness::wait::{SOON, eventually};

use super::carriers::{Carriers, TUNNEL};
use super::streams::upgraded;
use crate::machine;
use crate::member::SENDS;
use crate::site::Site;
use crate::table::{Goal, Spread, Table, median};
use crate::wrk::{self, Load};

/// Alternately measures without and with the stream.
pub(super) fn measure(carriers: &Carriers, sidecar: &OwnSidecar, site: &Site, quick: bool) -> Result<Table> {
    let (rounds, time) = if quick { (1, Duration::from_secs(1)) } else { (ROUNDS, TIME) };
    let mut table =
        Table::new(&["way", "p99 ms alone", "beside the stream", "of alone", "requests/s, of alone"]);
    for carrier in &carriers.ways {
        let way = &carrier.way;
        let load = || wrk::attempt(&way.url(), &way.headers(), CONNECTIONS, time);
        let (mut alone, mut beside, mut unanswered) = (Vec::new(), Vec::new(), 0);
        for number in 0..rounds {
            // The order changes, so that neither load always follows the other.
            let alone_first = number % 2 == 0;
            way.warm_up()?;
            let before = if alone_first { load()? } else { None };
            let stream = upgraded(carrier, sidecar, site, &format!("{SENDS}{ENDLESS}"))?;
            // Wait until all buffers in between are full.
            machine::idle(FILLED_AFTER);
            let during = load()?;
            drop(stream);
            // Otherwise the rest of the stream would still be running during the next load.
            eventually("the stream has ended", SOON, || {
                Ok((sidecar.metric("mc_sidecar_tunnels ")? == 0.0).then_some(()))
            })?;
            let Some(during) = during else {
                unanswered += 1;
                continue;
            };
            let without = if alone_first { before } else { way.warm_up().and_then(|()| load())? };
            let Some(without) = without else { continue };
            alone.push(without);
            beside.push(during);
        }
        let middle = |loads: &[Load], of: fn(&Load) -> f64| median(loads.iter().map(of));
        let against = |of: fn(&Load) -> f64| {
            median(beside.iter().zip(&alone).map(|(beside, alone)| of(beside) / of(alone)))
        };
        let ratio = Spread::of(beside.iter().zip(&alone).map(|(beside, alone)| beside.p99 / alone.p99));
        if unanswered > 0 {
            let said = format!("no answer within 2 s in {unanswered} of {rounds} rounds");
            table.row([way.name.to_owned(), String::new(), said, String::new(), String::new()]);
            continue;
        }
        table.row([
            way.name.to_owned(),
            format!("{:.2}", middle(&alone, |load| load.p99)),
            format!("{:.2}", middle(&beside, |load| load.p99)),
            match way.name {
                TUNNEL => format!("{ratio} ({})", Goal::AtMost(1.1).verdict(ratio.median)),
                _ => ratio.to_string(),
            },
            format!("{:.2}", against(|load| load.rate)),
        ]);
    }
    Ok(table)
}

const ROUNDS: usize = 9;
const TIME: Duration = Duration::from_secs(3);
const CONNECTIONS: usize = 4;
/// MiB: more than any buffer.
const ENDLESS: usize = 4096;
const FILLED_AFTER: Duration = Duration::from_secs(2);
