//! An address that opens as many idle connections as it can leaves room for other addresses.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::front_proxy;
use harness::good_caller::GoodCaller;
use harness::hostile::attack::Bounds;
use harness::hostile::crowds::{Stage, connections};
use harness::usage;
use harness::wait::eventually;

use super::site::{Site, good};
use crate::scale::serial::soak::say;

#[test]
fn fault_42_connections_of_one_address_leave_room_for_others() -> Result<()> {
    usage::room_for_files(CROWD as u64 + 1_000)?;
    let site = Site::start("crowd", &[])?;
    // Each request opens a new connection, because a caller with an open connection would notice
    // nothing.
    let close = ("connection", "close");
    let host = [("x-remote-user", "jane"), ("x-remote-group", "system:masters"), close];
    let host = good("the host", site.own.endpoint(Some(&front_proxy::certificate()?))?, &host);
    let other = good("another address", site.admin("other")?.from_address([127, 0, 0, 77]), &[close]);
    let path = site.path("/asked");
    host.ask(&path)?;
    other.ask(&path)?;

    let bounds = Bounds { clients: 8, time: Duration::from_secs(240) };
    let crowd = site.own.endpoint(None)?.from_address([127, 0, 0, 66]);
    // Idle connections may stay open for a long time. Half-open ones may only for 10 s, which is
    // too short to open all of them.
    let idle = connections(crowd.clone(), Stage::Idle, IDLE / bounds.clients, bounds);
    eventually("the idle ones are there", Duration::from_secs(120), || {
        Ok((idle.tally().sent >= IDLE as u64).then_some(()))
    })?;
    let begun = Instant::now();
    let attack = connections(crowd, Stage::Silent, (CROWD - IDLE) / bounds.clients, bounds);
    // A refused connection is opened again, so the crowd becomes complete in any case.
    eventually("the crowd is there", Duration::from_secs(50), || {
        Ok((attack.tally().sent >= (CROWD - IDLE) as u64).then_some(()))
    })?;
    let there = begun.elapsed();
    say(&format!("{} files are open after {there:?}", usage::open_files(site.own.pid())?));
    let callers = [host, other].map(|caller| {
        let path = path.clone();
        GoodCaller::start(caller, move |_| path.clone())
    });
    // Half-open connections time out after 10 s. Until then, they keep their places.
    eventually("the crowd stays for a while", Duration::from_secs(30), || {
        Ok((begun.elapsed() > there + Duration::from_secs(8)).then_some(()))
    })?;
    let measured = callers.map(GoodCaller::stop);
    let tally = attack.stop();
    drop(idle);
    for measured in measured {
        let measured = measured?;
        say(&format!("{tally}; {measured}"));
        measured.is_well_served(20)?;
    }
    ensure!(site.own.probe("/readyz")? == 200, "it is not ready");
    Ok(())
}

/// More connections than a replica accepts in total.
const CROWD: usize = 17_600;
const IDLE: usize = 16_000;
