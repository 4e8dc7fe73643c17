//! Joins the two byte streams of a tunnel. A half-close is forwarded as a half-close. If one
//! direction breaks, the other one continues until its end. At the end of a tunnel both sides are
//! closed, regardless of the reason.
//!
//! A side that does not read pauses the tunnel; the [`Cutoff`] records since when, and can end it.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::base::counted_io::Tally;
use crate::base::io_hook::{Hooked, IoHook};
use crate::base::last_words::Broken;
use crate::limits::cutoff::{Cutoff, Toward};
use crate::request::tunnels::Bytes;

/// The bytes that a tunnel carried, and the reason for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) to_member: u64,
    pub(super) to_caller: u64,
    pub(super) by: By,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Both sides ended.
    Sides,
    /// One side broke, or both.
    Break,
    Stop,
    /// The request is over.
    Over,
    /// One side did not read, and too many requests were paused.
    Paused,
}

/// Carries bytes both ways until both sides ended, `stop` is called or the request is `over`.
pub(super) async fn join(
    downstream: Upgraded,
    upstream: Upgraded,
    bytes: Bytes,
    stop: CancellationToken,
    over: impl Future<Output = ()>,
    cutoff: &Arc<Cutoff>,
) -> Ended {
    carry(TokioIo::new(downstream), TokioIo::new(upstream), bytes, stop, over, cutoff).await
}

async fn carry<D, U>(
    downstream: D,
    upstream: U,
    bytes: Bytes,
    stop: CancellationToken,
    over: impl Future<Output = ()>,
    cutoff: &Arc<Cutoff>,
) -> Ended
where
    D: AsyncRead + AsyncWrite + Unpin,
    U: AsyncRead + AsyncWrite + Unpin,
{
    let broken = Broken::default();
    let (to_member, to_caller) = (Tally::new(bytes.to_member), Tally::new(bytes.to_caller));
    let watched =
        |tally: &Arc<Tally>, toward| Written { tally: tally.clone(), cutoff: cutoff.clone(), toward };
    let mut downstream = broken.side(Hooked::new(downstream, watched(&to_caller, Toward::Caller)));
    let mut upstream = broken.side(Hooked::new(upstream, watched(&to_member, Toward::Member)));
    let by = tokio::select! {
        biased;
        () = stop.cancelled() => By::Stop,
        () = over => By::Over,
        () = poll_fn(|cx| cutoff.poll_cut(cx)) => By::Paused,
        () = broken.long_ago() => By::Break,
        copied = copy_bidirectional_with_sizes(&mut downstream, &mut upstream, BUFFER, BUFFER) => match copied {
            Ok(_) if !broken.is_cut_off() => By::Sides,
            Ok(_) | Err(_) => By::Break,
        },
    };
    let ended = Ended { to_member: to_member.count(), to_caller: to_caller.count(), by };
    debug!(?ended, "tunnel ended");
    // Sends a TLS alert and a FIN, so that each peer can recognize the end.
    let told = async { tokio::join!(downstream.shutdown(), upstream.shutdown()) };
    let _ = timeout(CLOSE_TIMEOUT, told).await;
    ended
}

/// Counts the bytes written to one side, and notes when it reads nothing.
#[derive(Debug)]
struct Written {
    tally: Arc<Tally>,
    cutoff: Arc<Cutoff>,
    toward: Toward,
}

impl IoHook for Written {
    fn written(&mut self, bytes: usize) {
        self.tally.add(bytes);
        self.cutoff.unblocked(self.toward);
    }

    fn write_blocked(&mut self) {
        self.cutoff.blocked(self.toward);
    }
}

/// The plain text of one TLS record: a larger buffer would still be filled one record at a time.
const BUFFER: usize = 16 * 1024;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncReadExt, DuplexStream, ReadBuf, duplex};
    use tokio::time::sleep;

    use super::*;
    use crate::base::last_words::closed_peer::closed_peer;

    /// A tunnel between two ends that the test holds.
    fn tunnel() -> (DuplexStream, DuplexStream, CancellationToken, tokio::task::JoinHandle<Ended>) {
        let (client, downstream) = duplex(64);
        let (member, upstream) = duplex(64);
        let stop = CancellationToken::new();
        let (stopped, cutoff) = (stop.clone(), Arc::default());
        let task = tokio::spawn(async move {
            carry(downstream, upstream, Bytes::default(), stopped, pending(), &cutoff).await
        });
        (client, member, stop, task)
    }

    #[tokio::test(start_paused = true)]
    async fn fault_65_half_close_leaves_the_other_direction_open() {
        let (mut client, mut member, _stop, task) = tunnel();
        client.write_all(b"question").await.unwrap();
        client.shutdown().await.unwrap();
        let mut question = String::new();
        member.read_to_string(&mut question).await.unwrap();
        member.write_all(b"answer").await.unwrap();
        drop(member);
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!((question.as_str(), answer.as_str()), ("question", "answer"));
        assert_eq!(task.await.unwrap(), Ended { to_member: 8, to_caller: 6, by: By::Sides });
    }

    #[tokio::test(start_paused = true)]
    async fn fault_67_idle_tunnel_stays_open() {
        let (mut client, mut member, _stop, _task) = tunnel();
        sleep(Duration::from_secs(7 * 24 * 3600)).await;
        client.write_all(b"still there?").await.unwrap();
        let mut heard = [0; 12];
        member.read_exact(&mut heard).await.unwrap();
        member.write_all(b"yes").await.unwrap();
        let mut heard = [0; 3];
        client.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"yes");
    }

    #[tokio::test(start_paused = true)]
    async fn fault_65_last_bytes_arrive_after_a_failed_write() {
        let (mut client, downstream) = duplex(64);
        let said = vec![b'x'; 100_000];
        let words = said.clone();
        let task = tokio::spawn(async move {
            let (bytes, stop, cutoff) = (Bytes::default(), CancellationToken::new(), Arc::default());
            carry(downstream, closed_peer(&words), bytes, stop, pending(), &cutoff).await
        });
        client.write_all(b"more input").await.unwrap();
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard.len(), said.len());
        let ended = task.await.unwrap();
        assert_eq!((ended.to_member, ended.to_caller, ended.by), (0, said.len() as u64, By::Break));
    }

    #[tokio::test(start_paused = true)]
    async fn reset_side_breaks_the_tunnel() {
        let (client, downstream) = duplex(64);
        let cut = reset();
        let task = tokio::spawn(async move {
            let (bytes, stop, cutoff) = (Bytes::default(), CancellationToken::new(), Arc::default());
            carry(downstream, cut, bytes, stop, pending(), &cutoff).await
        });
        drop(client);
        assert_eq!(task.await.unwrap().by, By::Break);
    }

    /// A peer whose connection is reset.
    fn reset() -> impl AsyncRead + AsyncWrite + Unpin {
        struct Reset;
        impl AsyncRead for Reset {
            fn poll_read(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
                _: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
            }
        }
        tokio::io::join(Reset, tokio::io::sink())
    }

    #[tokio::test(start_paused = true)]
    async fn stop_closes_both_sides() {
        let (mut client, mut member, stop, task) = tunnel();
        stop.cancel();
        let mut rest = Vec::new();
        assert_eq!(
            client.read_to_end(&mut rest).await.unwrap() + member.read_to_end(&mut rest).await.unwrap(),
            0
        );
        task.await.unwrap();
    }
}
