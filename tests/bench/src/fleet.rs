//! Measures what idle members cost the requests to another member. A sidecar that knows few members
//! is compared with one that knows hundreds more, and with a second one that knows few: the
//! difference between these two is the noise.

use std::time::Duration;

use anyhow::{Context, Result};
use harness::bed::host;
use harness::own_sidecar::OwnSidecar;
use harness::{registration, usage};

use crate::site::Site;
use crate::table::{Goal, Table, median};
use crate::usage::Cpu;
use crate::wrk;

/// One sidecar.
struct Measured {
    members: usize,
    /// Before any request.
    resident: f64,
    rate: f64,
    /// Microseconds of CPU time per request.
    cpu: f64,
}

pub(crate) fn measure(site: &Site, quick: bool) -> Result<Table> {
    let members = if quick { 20 } else { MEMBERS };
    let names: Vec<_> = (0..members).map(|number| format!("fleet-{number}")).collect();
    let before = sidecar(site, quick)?;
    names.iter().try_for_each(|name| site.register_again(name))?;
    let many = sidecar(site, quick)?;
    names.iter().try_for_each(|name| registration::remove(name))?;
    let after = sidecar(site, quick)?;

    let mean = |of: fn(&Measured) -> f64| f64::midpoint(of(&before), of(&after));
    let rate = many.rate / mean(|measured| measured.rate);
    let cpu = many.cpu / mean(|measured| measured.cpu);
    let more = (many.resident - mean(|measured| measured.resident)) * 1e3 / members as f64;
    let mut table =
        Table::new(&["members", "resident memory, idle", "requests/s", "of few", "CPU µs/request", "of few"]);
    for measured in [&before, &many, &after] {
        let judged = measured.members == many.members;
        table.row([
            measured.members.to_string(),
            match judged {
                true => format!("{:.1} MB ({more:.1} KB a member)", measured.resident),
                false => format!("{:.1} MB", measured.resident),
            },
            format!("{:.0}", measured.rate),
            if judged { Goal::AtLeast(0.95).ratio(rate) } else { String::new() },
            format!("{:.1}", measured.cpu),
            if judged { Goal::AtMost(1.05).ratio(cpu) } else { String::new() },
        ]);
    }
    Ok(table)
}

fn sidecar(site: &Site, quick: bool) -> Result<Measured> {
    let (rounds, time) = if quick { (1, Duration::from_secs(1)) } else { (ROUNDS, TIME) };
    let known = host()?.get("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters")?;
    let members = known["items"].as_array().context("no list")?.len();
    let sidecar = OwnSidecar::start()?;
    let resident = usage::resident(sidecar.pid())? as f64 / 1e6;
    let way = site.probe.sidecar.by(&sidecar.sidecar);
    way.warm_up()?;
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let before = Cpu::of(&way.pids)?;
        let load = wrk::run(&way.url(), &way.headers(), CONNECTIONS, time)?;
        costs.push((Cpu::of(&way.pids)? - before).total * 1e6 / load.requests);
        rates.push(load.rate);
    }
    Ok(Measured { members, resident, rate: median(rates), cpu: median(costs) })
}

const MEMBERS: usize = 500;
const CONNECTIONS: usize = 16;
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_secs(3);
