//! When clients that do not read take all places of a member, the places are free again at the requests'
//! deadline, whatever the client and the member do.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use harness::hostile::unread::{Request, Stall, Unread};
use harness::noise::MEBIBYTE;
use harness::usage;
use harness::wait::{SOON, eventually};

use super::super::site::{HALF, LARGE, SILENT, Site, TRICKLE};

#[test]
fn fault_36_37_unread_answers_free_their_places_in_time() -> Result<()> {
    Stall::ALL.into_iter().try_for_each(|stall| places_come_back("unread", LARGE, stall))
}

#[test]
fn fault_46_withheld_heads_free_their_places_in_time() -> Result<()> {
    Stall::ALL.into_iter().try_for_each(|stall| places_come_back("silent", SILENT, stall))
}

#[test]
fn fault_46_withheld_bodies_free_their_places_in_time() -> Result<()> {
    Stall::ALL.into_iter().try_for_each(|stall| places_come_back("half", HALF, stall))
}

#[test]
fn fault_46_trickling_bodies_free_their_places_in_time() -> Result<()> {
    Stall::ALL.into_iter().try_for_each(|stall| places_come_back("trickle", TRICKLE, stall))
}

/// Uses the first deadline that leaves enough time to take all places, because a hundred handshakes
/// take long on a busy machine.
fn places_come_back(name: &str, rest: &str, stall: Stall) -> Result<()> {
    for deadline in DEADLINES {
        if places_come_back_at(deadline, name, rest, stall)? == Outcome::InTime {
            return Ok(());
        }
    }
    bail!("{name}: the places could not be taken within {DEADLINES:?} seconds")
}

#[derive(PartialEq, Eq)]
enum Outcome {
    InTime,
    /// The deadline passed before all places were taken.
    NeverFull,
}

/// Callers that do not read take all hundred places of their level at a member. No other caller gets a place
/// until their deadline, in seconds, and every caller gets one soon after it.
fn places_come_back_at(deadline: u64, name: &str, rest: &str, stall: Stall) -> Result<Outcome> {
    let name = format!("{name}-{stall:?}-{deadline}").to_lowercase();
    let timeout = format!("--request-timeout={deadline}");
    let deadline = Duration::from_secs(deadline);
    let site = Site::start(&name, &[&timeout])?;
    let polite = site.admin("polite")?;
    let asked = |timeout: &str| {
        let path = site.path(&format!("/polite?timeout={timeout}"));
        polite.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
    };
    ensure!(asked("2s")?.status() == 200, "{name}: the member is not reached");
    let memory = usage::resident(site.own.pid())?;

    let begun = Instant::now();
    let mut flood = Vec::new();
    let arrived = || site.fake.requests(rest);
    // Each caller takes all the places that its threshold allows after the previous callers.
    let mut held = 0;
    for (caller, places) in [("first", 75), ("second", 19), ("third", 5), ("fourth", 1)] {
        let requests = vec![Request::get(site.path(rest)); places];
        flood.push(Unread::send(stall, &site.admin(caller)?, &requests)?);
        held += places;
        eventually("the places are taken", SOON, || {
            Ok((arrived().len() == held || begun.elapsed() >= deadline).then_some(()))
        })?;
    }
    let full = Instant::now();
    Unread::settle(&mut flood)?;
    let refused = asked("1s")?.status();
    if begun.elapsed() >= deadline {
        return Ok(Outcome::NeverFull);
    }
    ensure!(refused == 429, "{name}: the member is not full: {refused}");

    let over = |what: &str| {
        let late = full.elapsed().saturating_sub(deadline);
        ensure!(late <= deadline / LATE, "{name}: {what} {late:.1?} after the deadline");
        Ok(())
    };
    let closed = eventually("the member's connections are closed", SOON, || {
        let open = arrived().iter().filter(|request| !request.ended).count();
        ensure!(open == 0, "{open} are open");
        Ok(Some(()))
    });
    closed.with_context(|| name.clone())?;
    over("the member's connections were closed")?;
    eventually("the polite caller gets in", SOON, || Ok((asked("1s")?.status() == 200).then_some(())))?;
    over("the polite caller got in")?;
    eventually("no request is under way", SOON, || {
        Ok((site.own.metric("mc_sidecar_requests_in_flight ")? <= 0.0).then_some(()))
    })?;
    over("the last request was over")?;
    let grown = usage::peak(site.own.pid())?.saturating_sub(memory);
    // A mebibyte for each of the hundred requests: data of the member that the client did not read.
    ensure!(grown < 100 * MEBIBYTE, "{name}: it kept {} MiB for clients that do not read", grown / MEBIBYTE);
    drop(flood);
    Ok(Outcome::InTime)
}

/// In seconds. The first one is long enough for a hundred handshakes on a small machine.
const DEADLINES: [u64; 3] = [6, 12, 24];
/// The end may be late by this fraction of the deadline.
const LATE: u32 = 5;
