//! Compares one build of the sidecar with another, each as a process on the same member, to show what a
//! change costs.

use std::path::Path;

use anyhow::{Context, Result};
use harness::own_sidecar::{Difference, OwnSidecar};

use crate::front_proxy::FrontProxy;
use crate::requests::{CONNECTIONS, Round, round};
use crate::site::Site;
use crate::table::{Spread, Table, median};
use crate::usage;
use crate::way::{User, Way};

/// Measures the bed's build and `program` alternately, over a caller's own connections and over the
/// host's front proxy.
pub(crate) fn measure(site: &Site, program: &Path, quick: bool) -> Result<[(&'static str, Table); 2]> {
    let other = OwnSidecar::with(&Difference { program: Some(program), ..Difference::default() })?;
    let own = OwnSidecar::start()?;
    let idle = [usage::resident(own.pid())?, usage::resident(other.pid())?];
    let ways = [site.member.sidecar.by(&own.sidecar), site.member.sidecar.by(&other.sidecar)];
    ways.iter().try_for_each(|way| way.warm_up())?;
    let user = User::of_token(site.caller.token.as_deref().context("a service account without a token")?)?;
    let front_proxies = [FrontProxy::new(&own, &ways[0], &user), FrontProxy::new(&other, &ways[1], &user)];
    let direct = table(idle, quick, |at, connections| round(&ways[at], connections))?;
    let by_host = table(idle, quick, |at, requests| front_proxies[at].round(requests))?;
    Ok([("of connections", direct), ("of the front proxy's connection", by_host)])
}

/// The rounds of the two builds, by index.
fn table(idle: [f64; 2], quick: bool, mut round: impl FnMut(usize, usize) -> Result<Round>) -> Result<Table> {
    let mut table = Table::new(&[
        "at a time",
        "requests/s",
        "of the other build",
        "CPU µs/request",
        "of the other build",
        "idle MB",
        "of the other build",
    ]);
    for (at_a_time, rounds) in CONNECTIONS {
        let pairs = turns(if quick { 1 } else { rounds }, |at| round(at, at_a_time))?;
        let middle = |of| middle(&pairs, of);
        let ratio = |of: fn(&Round) -> f64| Spread::of(pairs.iter().map(|[own, other]| of(own) / of(other)));
        table.row([
            at_a_time.to_string(),
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

/// Runs rounds over both routes; each route goes first equally often.
pub(crate) fn by_turns(ways: &[Way; 2], connections: usize, rounds: usize) -> Result<Vec<[Round; 2]>> {
    turns(rounds, |at| round(&ways[at], connections))
}

/// Runs rounds of two alternatives, by index; each goes first equally often.
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

/// The median of the first route's rounds.
pub(crate) fn middle(pairs: &[[Round; 2]], of: fn(&Round) -> f64) -> f64 {
    median(pairs.iter().map(|[first, _]| of(first)))
}
