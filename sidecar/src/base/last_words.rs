//! Copies bytes both ways between two streams, and delivers the last bytes if one of them breaks. Writing to
//! a peer that has closed its end fails (RFC 9293, 3.10.7), although bytes that it sent earlier are still
//! unread. A command that exits without reading its input closes early, while its last output and its exit
//! code are in transit. `copy_bidirectional` would stop at the failed write.

#[cfg(test)]
pub(crate) mod closed_peer;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::base::io_hook::{Hooked, IoHook};

/// Whether a side of a copy has broken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Broken {
    has_broken: CancellationToken,
    /// Set when a broken side was read: the other side may be slow to accept its last bytes.
    goes_on: Arc<AtomicBool>,
    /// Set when reading from a side has failed. Writing can also fail at a normal end.
    is_cut_off: Arc<AtomicBool>,
}

impl Broken {
    /// Wraps a side, so that its failure ends only its own directions, and not the whole copy.
    pub(crate) fn side<S>(&self, stream: S) -> Hooked<S, Side> {
        Hooked::new(stream, Side { broken: self.clone(), has_broken: false, dropped: 0 })
    }

    /// Whether the last bytes of a side were lost.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Relaxed)
    }

    /// Resolves when a side has broken and no bytes have moved since for [`LAST_WORDS`].
    pub(crate) fn long_ago(&self) -> impl Future<Output = ()> + use<> {
        let Self { has_broken, goes_on, is_cut_off: _ } = self.clone();
        async move {
            has_broken.cancelled().await;
            while {
                sleep(LAST_WORDS).await;
                goes_on.swap(false, Ordering::Relaxed)
            } {}
        }
    }
}

/// One side of a copy. After it broke, writes to it are dropped, and reads from it return EOF. The copy fails
/// if the other side sends more than [`MAX_DROPPED`] after this side's last bytes.
#[derive(Debug)]
pub(crate) struct Side {
    broken: Broken,
    has_broken: bool,
    /// Bytes dropped since something was last read from this side.
    dropped: usize,
}

impl IoHook for Side {
    fn arrived(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.has_broken && !bytes.is_empty() {
            self.broken.goes_on.store(true, Ordering::Relaxed);
            self.dropped = 0;
        }
        Ok(())
    }

    fn read_failed(&mut self, error: io::Error) -> io::Result<()> {
        self.broken.is_cut_off.store(true, Ordering::Relaxed);
        self.write_failed(error, 0)
    }

    fn write_failed(&mut self, error: io::Error, offered: usize) -> io::Result<()> {
        self.has_broken = true;
        self.broken.has_broken.cancel();
        self.dropped += offered;
        if self.dropped > MAX_DROPPED { Err(error) } else { Ok(()) }
    }
}

/// How long the other direction may stall after one has broken.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(10);
/// More than the buffers of a connection hold (Linux: 4 MiB to send and 6 MiB to read, tcp(7)). A peer that
/// sends more is not about to close.
const MAX_DROPPED: usize = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy_bidirectional, duplex};
    use tokio::task::JoinHandle;

    use super::closed_peer::closed_peer;
    use super::*;

    /// Starts a copy from a closed peer, which has sent `said`, to a stream that the test holds.
    fn copy_from(said: &'static [u8]) -> (DuplexStream, JoinHandle<()>) {
        let (ours, mut near) = duplex(64);
        let task = tokio::spawn(async move {
            let broken = Broken::default();
            let mut far = broken.side(closed_peer(said));
            tokio::select! {
                () = broken.long_ago() => {}
                _ = copy_bidirectional(&mut near, &mut far) => {}
            }
        });
        (ours, task)
    }

    /// A copy from a closed peer to a reader that has written more than the peer read.
    async fn copy() -> (DuplexStream, JoinHandle<()>) {
        let (mut reader, task) = copy_from(SAID);
        reader.write_all(b"more").await.unwrap();
        (reader, task)
    }

    #[tokio::test(start_paused = true)]
    async fn fault_65_slow_reader_gets_the_last_bytes() {
        let (mut reader, task) = copy().await;
        let (mut piece, mut heard) = ([0; 8 * 1024], 0);
        while heard < SAID.len() {
            sleep(LAST_WORDS / 2).await;
            reader.read_exact(&mut piece).await.unwrap();
            heard += piece.len();
        }
        reader.shutdown().await.unwrap();
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_reader_is_not_waited_for() {
        let (mut reader, task) = copy().await;
        reader.read_exact(&mut [0]).await.unwrap();
        // The reader keeps writing.
        let writing = async {
            while reader.write_all(b"more").await.is_ok() {
                sleep(LAST_WORDS / 3).await
            }
        };
        let begun = tokio::time::Instant::now();
        tokio::join!(writing, async { task.await.unwrap() });
        assert!(begun.elapsed() <= 3 * LAST_WORDS, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn copy_from_an_endless_sender_to_a_broken_side_ends() {
        let (mut sender, task) = copy_from(b"");
        let mut sent = 0;
        while let Ok(bytes) = sender.write(&[b'x'; 64]).await {
            sent += bytes;
            assert!(sent < 2 * MAX_DROPPED, "the sender goes on");
        }
        task.await.unwrap();
    }

    const SAID: &[u8] = &[b'x'; 128 * 1024];
}
