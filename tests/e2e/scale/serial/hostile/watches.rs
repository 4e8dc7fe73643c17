//! The number of watches is bounded in total and for each member, one caller has a share of each
//! bound, and the memory of watches is freed.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step, ok};
use harness::http1::{Connection, Endpoint, member_path};
use harness::http2::Http2;
use harness::noise::MEBIBYTE;
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::usage;
use harness::wait::{SOON, eventually};

use crate::scale::serial::soak::say;

#[test]
fn watches_of_one_caller_leave_room_for_others() -> Result<()> {
    let flags = ["--max-watches=20", "--max-member-watches=20"];
    let (fake, own) =
        (member("share")?, OwnSidecar::with(&Difference { flags: &flags, ..Difference::default() })?);
    let greedy = admin(&own, "share-greedy")?;
    let mut open = fill(&greedy, &fake, 25, 15)?;
    let _other = watch(&admin(&own, "share-other")?, &fake)?.context("another caller gets no watch")?;
    // A place that is free again can be taken again.
    open.pop();
    let again = eventually("a watch that ends leaves its place", SOON, || watch(&greedy, &fake))?;
    drop((open, again));
    Ok(())
}

#[test]
fn watches_of_one_member_leave_room_for_other_members() -> Result<()> {
    let flags = ["--max-watches=100", "--max-member-watches=8"];
    let own = OwnSidecar::with(&Difference { flags: &flags, ..Difference::default() })?;
    let (one, two) = (member("one")?, member("two")?);
    let greedy = admin(&own, "member-greedy")?;
    let _open = fill(&greedy, &one, 10, 6)?;
    let _other_member = watch(&greedy, &two)?.context("another member has no watch left")?;
    let _other = watch(&admin(&own, "member-other")?, &one)?.context("another caller gets no watch")?;
    Ok(())
}

#[test]
fn memory_of_two_thousand_watches_is_freed() -> Result<()> {
    usage::room_for_files(8_000)?;
    let members = ["0", "1", "2", "3"].map(|number| member(&format!("memory-{number}")));
    let members = members.into_iter().collect::<Result<Vec<_>>>()?;
    let own = OwnSidecar::start()?;
    let before = usage::resident(own.pid())?;
    let mut connections = Vec::new();
    for number in 0..8 {
        let mut http2 = Http2::connect(&admin(&own, &format!("memory-{number}"))?)?;
        let path = member_path(&members[number % 4].name, WATCH);
        let streams = (0..250).map(|_| http2.get(&path, &[])).collect::<Result<Vec<_>>>()?;
        for stream in streams {
            let watch = http2.until(stream, |stream| stream.status.is_some())?;
            ensure!(watch.status == Some(200), "a watch is answered by {:?}", watch.status);
        }
        connections.push(http2);
    }
    let grown = usage::resident(own.pid())?.saturating_sub(before);
    drop(connections);
    eventually("all of them are over", SOON, || {
        Ok((own.metric("mc_sidecar_requests_in_flight ")? <= 0.0).then_some(()))
    })?;
    let left = eventually("the memory comes back", Duration::from_secs(60), || {
        let left = usage::resident(own.pid())?.saturating_sub(before);
        ensure!(left <= 20 * MEBIBYTE, "it keeps {} of {} MiB", left / MEBIBYTE, grown / MEBIBYTE);
        Ok(Some(left))
    })?;
    say(&format!("2,000 watches took {} MiB and left {} MiB", grown / MEBIBYTE, left / MEBIBYTE));
    Ok(())
}

/// A member whose watches stay open until their client ends them.
fn member(name: &str) -> Result<FakeMember> {
    let begin = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n";
    FakeMember::start(&format!("e2e-hostile-watches-{name}"), move |request| {
        match request.target().contains("watch=") {
            true => vec![Step::Send(begin.into()), Step::ReceiveAll],
            false => ok(),
        }
    })
}

/// Requests `asked` watches and checks that `share` of them are open and the others got a Retry-After.
fn fill(endpoint: &Endpoint, fake: &FakeMember, asked: usize, share: usize) -> Result<Vec<Connection>> {
    let mut open = Vec::new();
    for _ in 0..asked {
        open.extend(watch(endpoint, fake)?);
    }
    ensure!(open.len() == share, "{} of {asked} are open, the share is {share}", open.len());
    Ok(open)
}

/// An open watch, or `None` for a 429.
fn watch(endpoint: &Endpoint, fake: &FakeMember) -> Result<Option<Connection>> {
    let mut connection = endpoint.connect()?;
    let path = member_path(&fake.name, WATCH);
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    let head = connection.head()?;
    match head.status {
        200 => Ok(Some(connection)),
        429 => {
            ensure!(head.value("retry-after").is_some(), "429 without Retry-After: {head:?}");
            Ok(None)
        }
        other => anyhow::bail!("answered {other}"),
    }
}

fn admin(own: &OwnSidecar, name: &str) -> Result<Endpoint> {
    let admin = Caller::certificate(&format!("e2e-hostile-watches-{name}"), &["system:masters"])?;
    own.endpoint(admin.certificate.as_deref())
}

const WATCH: &str = "/api/v1/pods?watch=true";
