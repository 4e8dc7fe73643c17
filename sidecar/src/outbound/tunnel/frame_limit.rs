//! Limits the HTTP/2 frames that the other end of a tunnel may send. The readers' windows limit the
//! bytes of DATA frames, but not their number: small ones are counted, and merged before there are
//! many ([`Unread`]). All other frames (SETTINGS, PING, RST_STREAM) cost work and carry no data
//! (CVE-2019-9512, CVE-2019-9515, CVE-2023-44487), and a tunnel needs only a few of them for each
//! connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::unread::Unread;
use crate::base::io_hook::IoHook;

/// Counts frames by their heads (RFC 9113, 4.1).
#[derive(Debug)]
pub(crate) struct FrameLimit {
    head: [u8; HEAD],
    /// How many bytes of the head have arrived.
    filled: usize,
    /// How many bytes of the frame's payload have not arrived yet.
    payload: usize,
    rate: Rate<MAX_FRAMES>,
    /// The tunnel's connections, which merge small frames.
    unread: Arc<Unread>,
}

/// A rate of at most `MOST` per second, with a burst of twice as many.
#[derive(Debug)]
pub(super) struct Rate<const MOST: u32> {
    /// How many may arrive now.
    left: u32,
    refilled: Instant,
}

/// Too many frames without data.
#[derive(Debug, thiserror::Error)]
#[error("the other end sent more than {MAX_FRAMES} frames without data in a second")]
pub(crate) struct TooManyFrames;

impl<const MOST: u32> Default for Rate<MOST> {
    fn default() -> Self {
        Self { left: MOST, refilled: Instant::now() }
    }
}

impl<const MOST: u32> Rate<MOST> {
    /// Whether one more frame is within the rate.
    pub(super) fn admits(&mut self) -> bool {
        if self.left == 0 {
            let now = Instant::now();
            if now.duration_since(self.refilled) < REFILL {
                return false;
            }
            (self.left, self.refilled) = (MOST, now);
        }
        self.left -= 1;
        true
    }
}

impl FrameLimit {
    /// For the sidecar's end, which reads only frames.
    pub(crate) fn of_server(unread: Arc<Unread>) -> Self {
        Self { head: [0; HEAD], filled: 0, payload: 0, rate: Rate::default(), unread }
    }

    /// For the agent's end, which reads the client's preface first.
    pub(crate) fn of_client(unread: Arc<Unread>) -> Self {
        Self { payload: PREFACE, ..Self::of_server(unread) }
    }

    fn read(&mut self, mut bytes: &[u8]) -> Result<(), TooManyFrames> {
        while !bytes.is_empty() {
            if self.payload > 0 {
                let skipped = self.payload.min(bytes.len());
                self.payload -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            let taken = (HEAD - self.filled).min(bytes.len());
            self.head[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == HEAD {
                self.filled = 0;
                let [a, b, c, kind, ..] = self.head;
                self.payload = u32::from_be_bytes([0, a, b, c]) as usize;
                match (kind, self.payload) {
                    (DATA, 1..SMALL) => self.unread.small_frame_arrived(),
                    (DATA, SMALL..) => {}
                    _ if self.rate.admits() => {}
                    _ => return Err(TooManyFrames),
                }
            }
        }
        Ok(())
    }
}

impl IoHook for FrameLimit {
    /// `Unread::gathering` merges the small frames after this poll, and polls again.
    fn delays_reads(&self) -> bool {
        self.unread.has_many_small_frames()
    }

    fn arrived(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.read(bytes).map_err(io::Error::other)
    }
}

const HEAD: usize = 9;
/// The client's connection preface (3.4).
const PREFACE: usize = 24;
const DATA: u8 = 0;
/// A smaller frame takes more than a twentieth of its size in addition, and retains a part of a
/// read buffer that can be ten times as long.
const SMALL: usize = 4 * 1024;
/// A gigabyte a second needs four thousand window updates.
const MAX_FRAMES: u32 = 20_000;
const REFILL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::tunnel::unread::UnreadLimit;

    fn limit() -> FrameLimit {
        FrameLimit::of_server(UnreadLimit::of_agent().tunnel(None))
    }

    fn frame(kind: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        [&length[1..], &[kind, 0, 0, 0, 0, 1], &vec![0; payload]].concat()
    }

    #[tokio::test(start_paused = true)]
    async fn frames_without_data_are_rate_limited() {
        for flood in [frame(6, 8), frame(4, 0), frame(3, 4), frame(DATA, 0), frame(0x77, 3)] {
            let mut limit = limit();
            let most = flood.repeat(MAX_FRAMES as usize);
            limit.read(&most).unwrap();
            assert!(limit.read(&flood).is_err());
            tokio::time::advance(REFILL).await;
            limit.read(&most).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn data_frames_are_not_counted_however_they_are_split() {
        let mut limit = limit();
        let data = frame(DATA, 5).repeat(3 * MAX_FRAMES as usize);
        for part in data.chunks(7) {
            limit.read(part).unwrap();
        }
        assert_eq!(limit.rate.left, MAX_FRAMES);
    }
}
