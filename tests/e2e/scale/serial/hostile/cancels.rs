//! Requests that one caller cancels at once, or whose bodies arrive in small frames, do not end any
//! request of others, although the host sends all callers' requests over one connection.

use std::time::Duration;

use anyhow::{Result, ensure};
use harness::bed::bed;
use harness::caller::Caller;
use harness::fake_member::FakeMember;
use harness::front_proxy;
use harness::good_caller::GoodCaller;
use harness::hostile::attack::Bounds;
use harness::hostile::cancels::{burst, cancels};
use harness::http1::{Endpoint, member_path};
use harness::http2::{DATA, END_STREAM, Http2, frame};
use harness::scene::{EVERY_VERB, Scene};
use harness::usage;

use super::site::{SILENT, Site, good, script};
use crate::scale::serial::soak::say;

#[test]
fn fault_37_cancels_through_the_host_fail_no_other_request() -> Result<()> {
    let fake = FakeMember::start("e2e-hostile-cancels", script)?;
    let scene = Scene::on("m2", "hostile-cancels")?;
    let through = |name: &str| {
        let caller = Caller::certificate(&format!("e2e-hostile-cancels-{name}"), &[])?;
        scene.let_in(&caller, &[&fake.name], EVERY_VERB)?;
        Endpoint::cluster(&bed()?.host, caller.certificate.as_deref())
    };
    let good = [("reads", ""), ("watches", "?watch=true")].map(|(name, query)| {
        let path = member_path(&fake.name, &format!("/api/v1/pods{query}"));
        Ok::<_, anyhow::Error>(GoodCaller::start(good(name, through(name)?, &[]), move |_| path.clone()))
    });
    let good = good.into_iter().collect::<Result<Vec<_>>>()?;
    let bounds = Bounds { clients: 2, time: Duration::from_secs(12) };
    let tally = cancels(through("cancels")?, member_path(&fake.name, SILENT), 30, bounds).last();
    for caller in good {
        let measured = caller.stop()?;
        say(&format!("{tally}; {measured}"));
        measured.is_well_served(10)?;
    }
    ensure!(tally.sent > 1_000, "it was no attack: {tally}");
    Ok(())
}

#[test]
fn fault_37_resets_spare_the_front_proxys_connection() -> Result<()> {
    let site = Site::start("resets", &[])?;
    let mut http2 = Http2::connect(&site.own.endpoint(Some(&front_proxy::certificate()?))?)?;
    let user = |name| [("x-remote-user", name), ("x-remote-group", "system:masters")];
    for number in 0..200 {
        let (requests, resets) = burst(&mut http2, &site.path(SILENT), &user("eve"), 50)?;
        http2.send_bytes(&[requests, resets].concat())?;
        let stream = http2.get(&site.path("/other"), &user("jane"))?;
        let answer = http2.answer(stream)?;
        ensure!(answer.status == Some(200), "after {number} bursts: {answer:?}");
    }
    ensure!(http2.goaway.is_none(), "the connection takes no more: {:?}", http2.goaway);
    Ok(())
}

#[test]
fn fault_37_small_frames_spare_the_front_proxys_connection() -> Result<()> {
    let site = Site::start("small-frames", &[])?;
    let mut http2 = Http2::connect(&site.own.endpoint(Some(&front_proxy::certificate()?))?)?;
    let user = |name| [("x-remote-user", name), ("x-remote-group", "system:masters")];
    let watch = http2.get(WATCH, &user("jane"))?;
    http2.until(watch, |stream| stream.status == Some(200))?;
    let write = |http2: &mut Http2| http2.request("POST", &site.path("/writes"), &user("jane"), false);
    let before = usage::resident(site.own.pid())?;
    for attacks in 1.. {
        let slow = write(&mut http2)?;
        // The sidecar does not need the body of a watch.
        let attack = http2.request("GET", WATCH, &user("eve"), false)?;
        let mut writes = vec![slow];
        for _ in 0..60 {
            http2.send_bytes(&frame(DATA, 0, attack, b"x")?.repeat(1_000))?;
            http2.send(DATA, 0, slow, b"slow ")?;
            let quick = write(&mut http2)?;
            http2.send(DATA, 0, quick, b"quick ")?;
            http2.send(DATA, END_STREAM, quick, b"write")?;
            writes.push(quick);
        }
        http2.send(DATA, END_STREAM, slow, b"write")?;
        for write in writes {
            let answer = http2.answer(write)?;
            ensure!(
                answer.status == Some(200),
                "attack {attacks} failed a write of another user: {answer:?}"
            );
        }
        ensure!(http2.stream(attack).is_some_and(|attack| attack.reset.is_some()), "the attack goes on");
        ensure!(attacks < 100, "the connection is never retired");
        if let Some(code) = http2.goaway {
            ensure!(code == NO_ERROR, "closed with {code}");
            break;
        }
    }
    let grown = usage::peak(site.own.pid())?.saturating_sub(before);
    ensure!(grown < MOST_MEMORY, "the sidecar grew by {grown} bytes");
    http2.sync()?;
    let watch = http2.stream(watch);
    ensure!(watch.is_some_and(|stream| !stream.ended && stream.reset.is_none()), "{watch:?}");
    Ok(())
}

const WATCH: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters?watch=true";
const NO_ERROR: u32 = 0;
/// This is eight times what unread small frames may take.
const MOST_MEMORY: usize = 64 * 1024 * 1024;
