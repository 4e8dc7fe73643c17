//! Compares one build of the sidecar with another, each as a process on the same member, to show what a
//! change costs.

use std::path::Path;

use anyhow::Result;
use harness::own_sidecar::{Difference, OwnSidecar};

use crate::requests::{CONNECTIONS, Round, round};
use crate::site::Site;
use crate::table::{Spread, Table, median};
use crate::usage;
use crate::way::Way;

/// Measures the bed's build and `program` in turns.
pub(crate) fn measure(site: &Site, program: &Path, quick: bool) -> Result<Table> {
    let other = OwnSidecar::with(&Difference { program: Some(program), ..Difference::default() })?;
    let own = OwnSidecar::start()?;
    let idle = [usage::resident(own.pid())?, usage::resident(other.pid())?];
    let ways = [site.member.sidecar.by(&own.sidecar), site.member.sidecar.by(&other.sidecar)];
    ways.iter().try_for_each(|way| way.warm_up())?;
    let mut table = Table::new(&[
        "connections",
        "requests/s",
        "of the other build",
        "CPU µs/request",
        "of the other build",
        "idle MB",
        "of the other build",
    ]);
    for (connections, rounds) in CONNECTIONS {
        let pairs = by_turns(&ways, connections, if quick { 1 } else { rounds })?;
        let middle = |of| middle(&pairs, of);
        let ratio = |of: fn(&Round) -> f64| Spread::of(pairs.iter().map(|[own, other]| of(own) / of(other)));
        table.row([
            connections.to_string(),
            format!("{:.0}", middle(|round| round.load.rate)),
            ratio(|round| round.load.rate).to_string(),
            format!("{:.0}", middle(|round| round.cpu.total)),
            ratio(|round| round.cpu.total).to_string(),
            format!("{:.1}", idle[0]),
            format!("{:.2}", idle[0] / idle[1]),
        ]);
    }
    Ok(table)
}

/// Rounds through the two ways; each is equally often the first.
pub(crate) fn by_turns(ways: &[Way; 2], connections: usize, rounds: usize) -> Result<Vec<[Round; 2]>> {
    turns(rounds, |at| round(&ways[at], connections))
}

/// Rounds of two alternatives, by their index; each is equally often the first.
pub(crate) fn turns(rounds: usize, mut round: impl FnMut(usize) -> Result<Round>) -> Result<Vec<[Round; 2]>> {
    let pair = |number| {
        if number % 2 == 0 {
            return Ok([round(0)?, round(1)?]);
        }
        let second = round(1)?;
        Ok([round(0)?, second])
    };
    (0..rounds).map(pair).collect()
}

/// The median of the first way's rounds.
pub(crate) fn middle(pairs: &[[Round; 2]], of: fn(&Round) -> f64) -> f64 {
    median(pairs.iter().map(|[first, _]| of(first)))
}
