//! Floods of requests that are not authenticated or not authorized: heads that are small on the wire and
//! large in memory, made-up tokens, and impersonation of made-up users. Each client fills one HTTP/2
//! connection with streams, waits until all of them have ended, and begins again a second later.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::attack::{Attack, Bounds, Shift};
use crate::http1::Endpoint;
use crate::http2::{END_HEADERS, END_STREAM, HEADERS, Http2, frame, literal, remembered};

/// How much each client has open at once.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Streams of one connection.
    pub streams: usize,
    /// Header fields of one request in addition to the usual ones.
    pub fields: usize,
}

/// Heads whose fields all refer to one entry of the connection's table (RFC 7541, 6.1), which takes
/// one byte each on the wire. Each request has a made-up token, so that the server has to hold the
/// head while the token is reviewed.
pub fn heads(endpoint: Endpoint, target: String, load: Load, bounds: Bounds) -> Attack {
    Attack::start(bounds, move |shift| {
        flood(&endpoint, &target, load.streams, shift, |first| {
            let mut block = token();
            if first {
                block.extend(remembered("a", ""));
            }
            // This is the newest entry of the table; nothing else is put there.
            block.extend(vec![0x80 | 62; load.fields - usize::from(first)]);
            block
        })
    })
}

/// Made-up tokens, each on one stream.
pub fn tokens(endpoint: Endpoint, target: String, streams: usize, bounds: Bounds) -> Attack {
    Attack::start(bounds, move |shift| flood(&endpoint, &target, streams, shift, |_| token()))
}

/// Impersonation of made-up users by an authenticated caller, each on one stream.
pub fn users(endpoint: Endpoint, target: String, streams: usize, bounds: Bounds) -> Attack {
    Attack::start(bounds, move |shift| {
        flood(&endpoint, &target, streams, shift, |_| {
            literal("impersonate-user", &format!("e2e-{}", made_up()))
        })
    })
}

/// Sends this many GETs with these additional fields over one connection, and waits until all are
/// answered or reset.
fn flood(
    endpoint: &Endpoint,
    target: &str,
    streams: usize,
    shift: &Shift,
    fields: impl Fn(bool) -> Vec<u8>,
) -> Result<()> {
    let mut http2 = Http2::connect(endpoint)?;
    http2.connection().set_patience(PATIENCE)?;
    let usual = [(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", target)];
    let usual: Vec<u8> = usual.iter().flat_map(|(name, value)| literal(name, value)).collect();
    let mut open = Vec::new();
    for number in 0..streams {
        let stream = http2.next_stream();
        let block = [usual.clone(), fields(number == 0)].concat();
        http2.send_bytes(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)?)?;
        shift.sent(1);
        open.push(stream);
    }
    while !open.is_empty() && !shift.is_over() {
        ensure!(http2.frame()?.is_some(), "the server closed");
        open.retain(|stream| {
            let stream = http2.stream(*stream);
            stream.is_none_or(|stream| !stream.ended && stream.reset.is_none())
        });
    }
    shift.pause(PAUSE);
    Ok(())
}

fn token() -> Vec<u8> {
    literal("authorization", &format!("Bearer {}", made_up()))
}

/// A word that has not been used before.
fn made_up() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("made-up-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The pause between a client's floods: they test how much is open at once, not how fast the machine is.
const PAUSE: Duration = Duration::from_secs(1);
/// Longer than a review may take.
const PATIENCE: Duration = Duration::from_secs(15);
