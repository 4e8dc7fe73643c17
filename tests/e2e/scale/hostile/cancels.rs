//! Requests that one caller cancels at once end no request of others, although the host sends all callers'
//! requests over one connection.

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
use harness::http2::Http2;
use harness::scene::{EVERY_VERB, Scene};

use super::site::{SILENT, Site, good, script};
use crate::scale::soak::say;

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
