//! Reads the body of an answer with a limit on size and time. A timeout for each read would not be
//! enough, because a server can send a byte now and then.

use std::error::Error;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::time::{Instant, timeout_at};

/// Why the whole body was not read.
#[derive(Debug)]
pub(super) enum BodyError<E> {
    TooLarge,
    TooSlow(Box<dyn Error + Send + Sync>),
    Failed(E),
}

/// The body, if it is no longer than the limit and arrives at [`SLOWEST`].
pub(super) async fn body<B: Body<Data = Bytes> + Unpin>(
    mut body: B,
    limit: usize,
) -> Result<Bytes, BodyError<B::Error>> {
    let begin = Instant::now();
    let mut read = BytesMut::new();
    loop {
        let earned = Duration::from_secs(read.len() as u64 / SLOWEST);
        let Ok(next) = timeout_at(begin + READ_TIMEOUT + earned, body.frame()).await else {
            let reason = format!("the answer arrives at less than {} KiB a second", SLOWEST / 1024);
            return Err(BodyError::TooSlow(reason.into()));
        };
        let Some(frame) = next.transpose().map_err(BodyError::Failed)? else { return Ok(read.freeze()) };
        let Ok(data) = frame.into_data() else { continue };
        if read.len() + data.remaining() > limit {
            return Err(BodyError::TooLarge);
        }
        read.extend_from_slice(&data);
    }
}

/// Minimum bytes per second after the first [`READ_TIMEOUT`]: far less than the slowest link that a
/// user would tolerate.
const SLOWEST: u64 = 1024;

/// Longer than the sidecar needs to detect that a member does not respond.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll, ready};

    use hyper::body::Frame;
    use tokio::time::{Interval, interval};

    use super::*;

    /// A body of pieces of this size, one per second.
    struct Pieces {
        clock: Interval,
        size: usize,
        left: usize,
    }

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            ready!(self.clock.poll_tick(cx));
            let Some(left) = self.left.checked_sub(1) else { return Poll::Ready(None) };
            self.left = left;
            Poll::Ready(Some(Ok(Frame::data(vec![b'x'; self.size].into()))))
        }
    }

    async fn read(size: usize, pieces: usize) -> Result<usize, BodyError<Infallible>> {
        let pieces = Pieces { clock: interval(Duration::from_secs(1)), size, left: pieces };
        body(pieces, 1024 * 1024).await.map(|body| body.len())
    }

    #[tokio::test(start_paused = true)]
    async fn fault_81_answer_by_the_byte_ends_in_time() {
        let begin = Instant::now();
        assert!(matches!(read(1, usize::MAX).await, Err(BodyError::TooSlow(_))));
        assert!(begin.elapsed() < 2 * READ_TIMEOUT, "{:?}", begin.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_answer_that_goes_on_is_read() {
        assert!(matches!(read(2048, 500).await, Ok(1_024_000)));
        assert!(matches!(read(1, 20).await, Ok(20)));
        assert!(matches!(read(2048, 1000).await, Err(BodyError::TooLarge)));
    }
}
