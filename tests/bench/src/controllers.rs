//! Measures what hundreds of members cost the one replica that manages them: memory, calls to the
//! members and to the host while nothing happens, and the time until all are in sync, both from the
//! start and after a change of rights on the host.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;
use harness::audit::AuditLog;
use harness::bed::{bed, host as host_api};
use harness::own_sidecar::OwnSidecar;

use crate::site::Site;
use crate::table::{Table, median};
use crate::usage::{Cpu, resident};
use crate::{machine, print};

mod host;
mod members;

use host::{Fleet, RBAC, bind};
use members::Members;

pub(crate) fn measure(site: &Site, window: Duration, quick: bool) -> Result<()> {
    let (few, many, rounds) = if quick { (2, 20, 1) } else { (4, 300, 5) };
    let settled = Duration::from_secs(if quick { 3 } else { 20 });
    let window = if quick { Duration::from_secs(10) } else { window };
    let members = Members::start(&site.certificates)?;
    let ca = fs::read_to_string(&site.certificates.ca)?;
    let mut times =
        Table::new(&["what", "first member", "all members", "calls to members", "calls to the host"]);

    let mut fleet = Fleet::new("few", few, &members, &ca)?;
    let sidecar = fleet.sidecar("*")?;
    fleet.until_in_step()?;
    let resident_few = resident_of(&mut fleet, sidecar, few, settled)?;
    fleet.remove()?;

    let mut fleet = Fleet::new("many", many, &members, &ca)?;
    let sidecar = first_start(&mut fleet, &members, many, &mut times)?;
    let resident_many = resident_of(&mut fleet, sidecar, many, settled)?;
    let sidecar = next_start(&mut fleet, &members, many, &mut times)?;
    changes(&members, many, rounds, &mut times)?;
    machine::idle(settled);
    let steady = steady(&fleet, &members, &sidecar, many, window)?;
    drop(sidecar);
    fleet.remove()?;

    print("Controllers: resident memory, idle", &memory(&resident_few, &resident_many))?;
    let title = format!("Controllers: {many} members, nothing happens, for {:.0} s", window.as_secs_f64());
    print(&title, &steady)?;
    print(&format!("Controllers: time until the members are in step, {many} members"), &times)
}

/// Memory of replicas that know this many members.
struct Resident {
    members: usize,
    leads: f64,
    follows: f64,
}

/// Measures the replica that leads, ends it, and measures one that follows.
fn resident_of(fleet: &mut Fleet, leader: OwnSidecar, members: usize, settled: Duration) -> Result<Resident> {
    machine::idle(settled);
    let leads = resident(leader.pid())?;
    end(leader)?;
    Ok(Resident { members, leads, follows: following(fleet, settled)? })
}

/// The start of a replica whose members were never synced.
fn first_start(fleet: &mut Fleet, members: &Members, many: usize, times: &mut Table) -> Result<OwnSidecar> {
    let (log, before) = (AuditLog::from_now(&bed()?.host)?, members.calls());
    let sidecar = fleet.sidecar("*")?;
    let (first, all) = fleet.until_in_step()?;
    let (asked, calls) = (fleet.asked(&log)?, members.calls().since(before));
    times.row([
        format!("start, {many} members that were never synced"),
        seconds(first),
        seconds(all),
        format!("{} ({} writes), {} connections at once", calls.all(), calls.writes, calls.at_once),
        format!("{} ({} writes): {}", asked.all(), asked.writes(), asked.most(1.0)),
    ]);
    Ok(sidecar)
}

/// The start of a replica whose members are already in sync.
fn next_start(fleet: &mut Fleet, members: &Members, many: usize, times: &mut Table) -> Result<OwnSidecar> {
    let (log, before) = (AuditLog::from_now(&bed()?.host)?, members.calls());
    let sidecar = fleet.sidecar("*")?;
    // A sync reads five times, and a probe sends two requests.
    members.until_called(|calls| {
        let calls = calls.since(before);
        calls.reads >= 5 * many && calls.probes >= 2 * many
    })?;
    let all = fleet.elapsed();
    let (asked, calls) = (fleet.asked(&log)?, members.calls().since(before));
    times.row([
        "start, all in step: until each was looked at".to_owned(),
        String::new(),
        seconds(all),
        format!("{} ({} writes)", calls.all(), calls.writes),
        format!("{} ({} writes)", asked.all(), asked.writes()),
    ]);
    Ok(sidecar)
}

/// The time until a binding, and later its deletion, has reached the members.
fn changes(members: &Members, many: usize, rounds: usize, times: &mut Table) -> Result<()> {
    for (what, role, having) in [
        (format!("a user bound to a role for all {many}"), "bench-many", many),
        ("a user bound to a role for one".to_owned(), "bench-many-001", 1),
    ] {
        let changes = (0..rounds).map(|_| change(members, role, having)).collect::<Result<Vec<_>>>()?;
        for (what, which) in [(what, 0), ("that binding deleted".to_owned(), 1)] {
            let time = |of: fn(&Change) -> Duration| {
                Duration::from_secs_f64(median(changes.iter().map(|both| of(&both[which]).as_secs_f64())))
            };
            let (first, all) = (time(|change| change.first), time(|change| change.all));
            times.row([what, seconds(first), seconds(all), String::new(), String::new()]);
        }
    }
    Ok(())
}

/// Calls and CPU while nothing happens.
fn steady(
    fleet: &Fleet,
    members: &Members,
    sidecar: &OwnSidecar,
    many: usize,
    window: Duration,
) -> Result<Table> {
    let minutes = window.as_secs_f64() / 60.0;
    let (log, before, cpu) = (AuditLog::from_now(&bed()?.host)?, members.calls(), Cpu::of(&[sidecar.pid()])?);
    machine::idle(window);
    let (cpu, calls) = (Cpu::of(&[sidecar.pid()])? - cpu, members.calls().since(before));
    let asked = fleet.asked(&log)?;
    let per_minute = |count: usize| format!("{:.0}", count as f64 / minutes);
    let mut steady = Table::new(&["to", "calls a minute", "of them writes", "which a minute"]);
    steady.row([
        format!("{many} members"),
        per_minute(calls.all()),
        per_minute(calls.writes + calls.tokens),
        format!(
            "{} probes, {} reads of rights, over {} connections",
            per_minute(calls.probes),
            per_minute(calls.reads),
            per_minute(calls.connections)
        ),
    ]);
    steady.row([
        "the host".to_owned(),
        per_minute(asked.all()),
        per_minute(asked.writes()),
        asked.most(minutes),
    ]);
    let used = cpu.total / window.as_secs_f64();
    steady.row([
        "CPU of the replica that leads".to_owned(),
        String::new(),
        String::new(),
        format!("{:.1} ms/s, {:.1} % of one core", used * 1e3, used * 100.0),
    ]);
    Ok(steady)
}

fn memory(few: &Resident, many: &Resident) -> Table {
    let mut memory =
        Table::new(&["members", "a replica that follows", "a member", "the one that leads", "a member"]);
    memory.row([few.members.to_string(), mb(few.follows), String::new(), mb(few.leads), String::new()]);
    let each = |many_have: f64, few_have: f64| {
        format!("{:.1} KB", (many_have - few_have) * 1e3 / (many.members - few.members) as f64)
    };
    memory.row([
        many.members.to_string(),
        mb(many.follows),
        each(many.follows, few.follows),
        mb(many.leads),
        each(many.leads, few.leads),
    ]);
    memory
}

/// Memory of a replica that knows the members and does not lead.
fn following(fleet: &mut Fleet, settled: Duration) -> Result<f64> {
    let sidecar = fleet.sidecar("")?;
    machine::idle(settled);
    resident(sidecar.pid())
}

/// The time from a change on the host until members have it.
struct Change {
    first: Duration,
    all: Duration,
}

/// Binds a user to a role that covers this many members, and deletes the binding again.
fn change(members: &Members, role: &str, having: usize) -> Result<[Change; 2]> {
    let (host, name) = (host_api()?, "bench-change");
    let user = "newcomer@example.com";
    members.look_for(user);
    let begun = Instant::now();
    bind(&host, name, role, std::iter::once(user.to_owned()))?;
    let came = members.until(having)?;
    let since = |begun: Instant, (first, all): (Instant, Instant)| Change {
        first: first.saturating_duration_since(begun),
        all: all.saturating_duration_since(begun),
    };
    let came = since(begun, came);
    members.look_for(user);
    let begun = Instant::now();
    host.delete(&format!("{RBAC}/clusterrolebindings/{name}"))?;
    Ok([came, since(begun, members.until(0)?)])
}

/// Ends a sidecar cleanly, so that another can become the leader at once.
fn end(mut sidecar: OwnSidecar) -> Result<()> {
    sidecar.terminate()?;
    sidecar.ended().map(drop)
}

fn mb(megabytes: f64) -> String {
    format!("{megabytes:.1} MB")
}

fn seconds(time: Duration) -> String {
    if time.is_zero() { String::new() } else { format!("{:.2} s", time.as_secs_f64()) }
}
