//! HTTP/2 floods, bombs and stalls, sent frame by frame, end in a GOAWAY, a refused stream or a wait, while
//! the server needs little memory and serves other callers. Each test has its own sidecar, so the
//! memory and CPU time are those of the attack.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Gate, Step, ok};
use harness::http1::{Endpoint, member_path};
use harness::http2::{
    ACK, CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, HEADERS, Http2, PING,
    PROTOCOL_ERROR, REFUSED_STREAM, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, literal, remembered,
};
use harness::noise::MEBIBYTE;
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::tool::contains;
use harness::usage;

#[test]
fn fault_19_trailers_of_http2_bring_no_identity() -> Result<()> {
    let site = Site::start("trailers", |_| ok())?;
    let mut http2 = Http2::connect(&site.endpoint)?;
    let stream = http2.request("POST", &site.path("/trailers"), &[("trailer", "impersonate-user")], false)?;
    http2.send(DATA, 0, stream, b"body")?;
    let trailers = [literal("impersonate-user", "eve"), literal("x-remote-user", "eve")].concat();
    http2.send(HEADERS, END_HEADERS | END_STREAM, stream, &trailers)?;
    assert_eq!(http2.answer(stream)?.status, Some(200));
    let arrived = site.fake.wait_for("/trailers", |_| true)?;
    ensure!(!contains(&arrived.received, "eve") && !arrived.head.contains("eve"), "{arrived:?}");
    Ok(())
}

#[test]
fn fault_36_thousand_slow_clients_use_little_memory() -> Result<()> {
    let site = Site::start("slow", |request| {
        if !request.target().contains("/slow") {
            return ok();
        }
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n";
        vec![Step::Send(head.into()), Step::Send(vec![b'x'; MEBIBYTE]), Step::ReceiveAll]
    })?;
    let before = usage::resident(site.own.pid())?;
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut http2 = Http2::with_settings(&site.endpoint, &[])?;
        let mut reads = Vec::new();
        for number in 0..STREAMS {
            // These are long-running requests, so that only the connection limits them.
            let path = site.path("/api/v1/slow?watch=true");
            if number % 2 == 0 {
                reads.push(http2.get(&path, &[])?);
            } else {
                let upload = http2.request("POST", &site.path("/api/v1/nodes/n/proxy/upload"), &[], false)?;
                http2.send(DATA, 0, upload, b"a little")?;
            }
        }
        for stream in reads {
            assert_eq!(http2.until(stream, |stream| stream.status.is_some())?.status, Some(200));
        }
        slow.push(http2);
    }
    site.serves_others()?;
    let grown = usage::resident(site.own.pid())?.saturating_sub(before);
    ensure!(grown < 4 * STREAMS * 128 * 1024, "it keeps {} KiB for each", grown / STREAMS / 4 / 1024);
    Ok(())
}

#[test]
fn fault_37_rapid_reset_is_disconnected() -> Result<()> {
    // CVE-2023-44487: streams that are opened and reset at once cost the client nothing.
    let site = Site::start("rapid-reset", |_| vec![Step::ReceiveAll])?;
    let path = site.path("/hang");
    site.survives(|http2| flood(http2, &path, |stream| frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())))
}

#[test]
fn fault_37_streams_reset_by_the_server_are_counted() -> Result<()> {
    // CVE-2025-8671, "MadeYouReset": a window that grows past 2^31-1 is a stream error (RFC 9113, 6.9.1).
    let site = Site::start("made-you-reset", |_| vec![Step::ReceiveAll])?;
    let path = site.path("/hang");
    let too_much = i32::MAX.to_be_bytes();
    site.survives(|http2| flood(http2, &path, |stream| frame(WINDOW_UPDATE, 0, stream, &too_much)))
}

#[test]
fn fault_37_endless_continuations_are_disconnected() -> Result<()> {
    let site = Site::start("continuation", |_| ok())?;
    site.survives(|http2| {
        let stream = http2.next_stream();
        http2.send(HEADERS, END_STREAM, stream, &literal(":method", "GET"))?;
        let more = literal("x-more", &"m".repeat(8 * 1024));
        for _ in 0..10_000 {
            if http2.send(CONTINUATION, 0, stream, &more).is_err() {
                break;
            }
        }
        is_cut_off(http2)
    })
}

#[test]
fn fault_37_unread_settings_and_ping_answers_cost_little() -> Result<()> {
    let site = Site::start("settings", |_| ok())?;
    site.survives(|http2| {
        let mut bytes = Vec::new();
        for number in 0..20_000_u64 {
            bytes.extend(frame(SETTINGS, 0, 0, &[])?);
            bytes.extend(frame(PING, 0, 0, &number.to_be_bytes())?);
        }
        // Refused with a GOAWAY, or answered in order: the server queues nothing.
        if http2.send_bytes(&bytes).is_err() {
            http2.end()?;
            return Ok(());
        }
        let mut last = 0;
        while last < 19_999 {
            let Some(frame) = http2.frame()? else { return Ok(()) };
            if frame.kind == PING && frame.flags & ACK != 0 {
                last = u64::from_be_bytes(frame.payload.try_into().ok().context("a ping has eight bytes")?);
            }
        }
        Ok(())
    })
}

#[test]
fn fault_37_hpack_bomb_is_refused() -> Result<()> {
    let site = Site::start("hpack", |_| ok())?;
    site.survives(|http2| {
        let stream = http2.next_stream();
        // The sender's dynamic table has the receiver's default size: 4096 bytes.
        let mut block: Vec<u8> =
            [(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", "/version")]
                .iter()
                .flat_map(|(name, value)| literal(name, value))
                .collect();
        block.extend(remembered("x-bomb", &"b".repeat(4000)));
        // Each byte expands to four thousand.
        block.extend(vec![0x80 | 62; 12_000]);
        http2.send(HEADERS, END_HEADERS | END_STREAM, stream, &block)?;
        match http2.answer(stream) {
            Ok(answer) => ensure!(answer.status == Some(431) || answer.reset.is_some(), "{answer:?}"),
            Err(_) => is_cut_off(http2)?,
        }
        Ok(())
    })
}

#[test]
fn fault_38_stream_above_the_limit_is_refused() -> Result<()> {
    let gate = Gate::closed();
    let site = Site::start("streams", {
        let gate = gate.clone();
        move |request| match request.target().contains("/hang") {
            true => [vec![Step::Wait(gate.clone())], ok()].concat(),
            false => ok(),
        }
    })?;
    let mut http2 = Http2::connect(&site.endpoint)?;
    // These are long-running requests, which only the connection limits.
    let path = site.path("/api/v1/hang?watch=true");
    let streams = (0..STREAMS).map(|_| http2.get(&path, &[])).collect::<Result<Vec<_>>>()?;
    let more = http2.get(&path, &[])?;
    assert_eq!(http2.answer(more)?.reset, Some(REFUSED_STREAM));
    site.serves_others()?;
    gate.open();
    for stream in streams {
        assert_eq!(http2.answer(stream)?.status, Some(200));
    }
    // The places are free again.
    let again = http2.get(&path, &[])?;
    assert_eq!(http2.answer(again)?.status, Some(200));
    Ok(())
}

#[test]
fn fault_39_unread_upload_blocks_no_other_stream() -> Result<()> {
    // kubernetes/kubernetes#67902: the upload used up the window of the whole connection.
    let gate = Gate::closed();
    let site = Site::start("upload", {
        let gate = gate.clone();
        move |request| match request.target().contains("/upload") {
            true => [vec![Step::Wait(gate.clone()), Step::Receive(10 * MEBIBYTE)], ok()].concat(),
            false => ok(),
        }
    })?;
    let mut http2 = Http2::connect(&site.endpoint)?;
    let upload = http2.request("POST", &site.path("/upload?watch=true"), &[], false)?;
    // Sends as much as the stream's window allows. The rest waits for the member.
    for _ in 0..3 {
        http2.send(DATA, 0, upload, &[b'u'; 16 * 1024])?;
    }
    for number in 0..999 {
        let stream = http2.request("POST", &site.path(&format!("/other/{number}")), &[], false)?;
        http2.send(DATA, END_STREAM, stream, &[b'o'; 1024])?;
        assert_eq!(http2.answer(stream)?.status, Some(200), "request {number}");
    }
    gate.open();
    Ok(())
}

#[test]
fn fault_40_forbidden_http2_headers_are_refused() -> Result<()> {
    let site = Site::start("forbidden", |_| ok())?;
    let path = site.path("/forbidden");
    let good = [(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", path.as_str())];
    let with = |line: (&'static str, &'static str)| [&good[..], &[line]].concat();
    for lines in [
        with(("connection", "Impersonate-User")),
        with(("transfer-encoding", "chunked")),
        with(("keep-alive", "timeout=5")),
        with(("upgrade", "h2c")),
        with(("te", "gzip")),
        with(("X-Upper", "x")),
        with((":path", "/again")),
        with((":unknown", "x")),
        with(("x-line", "a\r\nImpersonate-User: admin")),
        with(("x-nul", "a\0b")),
        with(("bad name", "x")),
        vec![good[0], good[1], good[2]],
        vec![good[0], good[1], good[2], (":path", "")],
        vec![good[0], good[1], good[2], (":path", "relative")],
        vec![good[0], good[1], (":authority", "user@x y"), good[3]],
        vec![("x-first", "x"), good[0], good[1], good[2], good[3]],
        vec![good[1], good[2], good[3]],
    ] {
        let mut http2 = Http2::connect(&site.endpoint)?;
        let stream = http2.head(&lines, true)?;
        let answer = http2.answer(stream);
        let goaway = http2.goaway;
        let refused = match &answer {
            Ok(answer) => {
                answer.reset == Some(PROTOCOL_ERROR)
                    || answer.status.is_some_and(|code| (400..500).contains(&code))
            }
            Err(_) => goaway == Some(PROTOCOL_ERROR),
        };
        ensure!(refused, "{lines:?}: {answer:?} {goaway:?}");
    }
    assert_eq!(site.fake.requests("/forbidden").len(), 0);
    site.serves_others()
}

#[test]
fn random_goaway_loses_no_request() -> Result<()> {
    let admin = Caller::certificate("e2e-h2-goaway", &["system:masters"])?;
    let own = OwnSidecar::with(&Difference { flags: &["--goaway-chance=0.02"], ..Difference::default() })?;
    let mut http2 = Http2::connect(&own.endpoint(admin.certificate.as_deref())?)?;
    // With a chance of one in fifty, two thousand requests without a GOAWAY mean that none is sent.
    for _ in 0..2_000 {
        let stream = http2.get("/version", &[])?;
        assert_eq!(http2.answer(stream)?.status, Some(200));
        if http2.goaway.is_some() {
            break;
        }
    }
    // The connection did not end because of its age.
    assert_eq!(http2.goaway, Some(0));
    http2.end()?;
    Ok(())
}

/// The maximum number of open streams on a connection.
const STREAMS: usize = 250;

/// A member with a separate sidecar, and an administrator who attacks it.
struct Site {
    fake: FakeMember,
    own: OwnSidecar,
    endpoint: Endpoint,
}

impl Site {
    fn start(
        name: &str,
        script: impl Fn(&harness::fake_member::Request) -> Vec<Step> + Send + Sync + 'static,
    ) -> Result<Self> {
        let fake = FakeMember::start(&format!("e2e-h2-{name}"), script)?;
        let admin = Caller::certificate(&format!("e2e-h2-{name}"), &["system:masters"])?;
        let own = OwnSidecar::start()?;
        let endpoint = own.endpoint(admin.certificate.as_deref())?;
        Ok(Self { fake, own, endpoint })
    }

    fn path(&self, rest: &str) -> String {
        member_path(&self.fake.name, rest)
    }

    /// Checks that the attack costs little, and that the sidecar serves others during and after it.
    fn survives(&self, attack: impl FnOnce(&mut Http2) -> Result<()>) -> Result<()> {
        self.serves_others()?;
        let memory = usage::resident(self.own.pid())?;
        let cpu = usage::cpu(self.own.pid())?;
        let mut http2 = Http2::connect(&self.endpoint)?;
        attack(&mut http2)?;
        self.serves_others()?;
        let grown = usage::resident(self.own.pid())?.saturating_sub(memory);
        ensure!(grown < 32 * MEBIBYTE, "it keeps {} MiB", grown / MEBIBYTE);
        let used = usage::cpu(self.own.pid())?.saturating_sub(cpu);
        ensure!(used < AT_MOST, "it took {used:?}");
        Ok(())
    }

    fn serves_others(&self) -> Result<()> {
        let mut other = Http2::connect(&self.endpoint)?;
        let stream = other.get("/version", &[])?;
        ensure!(other.answer(stream)?.status == Some(200), "another connection is not served");
        Ok(())
    }
}

/// Opens thousands of streams and ends each one with `ending`, until the server disconnects.
fn flood(http2: &mut Http2, path: &str, ending: impl Fn(u32) -> Result<Vec<u8>>) -> Result<()> {
    for _ in 0..200 {
        let mut bytes = Vec::new();
        for _ in 0..50 {
            let stream = http2.next_stream();
            bytes.extend(head(stream, "GET", path)?);
            bytes.extend(ending(stream)?);
        }
        if http2.send_bytes(&bytes).is_err() {
            break;
        }
    }
    is_cut_off(http2)
}

/// Checks that the server sends GOAWAY and closes. The GOAWAY may be lost with unread data.
fn is_cut_off(http2: &mut Http2) -> Result<()> {
    let goodbye = http2.end().context("it goes on")?;
    ensure!([None, Some(ENHANCE_YOUR_CALM)].contains(&goodbye), "it said {goodbye:?}");
    Ok(())
}

/// The HEADERS frame of a whole request.
fn head(stream: u32, method: &str, path: &str) -> Result<Vec<u8>> {
    let lines = [(":method", method), (":scheme", "https"), (":authority", "x"), (":path", path)];
    let block: Vec<u8> = lines.iter().flat_map(|(name, value)| literal(name, value)).collect();
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
}

/// The CPU time that an unoptimized program needs for tens of thousands of frames.
const AT_MOST: Duration = Duration::from_secs(5);
