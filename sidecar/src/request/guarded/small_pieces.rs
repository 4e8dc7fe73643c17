//! Merges small pieces of an answer while earlier ones wait for their HTTP/2 connection.
//!
//! h2 limits the waiting bytes of an answer, but not the number of their frames. Each frame takes
//! an entry in h2, and retains the read buffer in which it arrived. So small pieces are copied, and
//! h2 holds at most [`MAX_WAITING`] pieces of an answer. It drops a piece when it writes it to the
//! connection, and the piece then no longer counts. While fewer pieces wait, a piece of a watch or
//! of a log is sent at once.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http_body::{Body, Frame, SizeHint};

/// A body whose small pieces are merged, if it is for HTTP/2. hyper's buffer for HTTP/1.1 merges
/// them itself.
#[derive(Debug)]
pub(super) struct SmallPieces<B> {
    body: B,
    joins: bool,
    /// The pieces that h2 holds; `None` before the first one.
    waiting: Option<Arc<Waiting>>,
    /// Pieces that h2 does not hold yet, one after another.
    joined: Vec<u8>,
    /// The frame after `joined`; `None` at the end of the body.
    next: Option<Option<Box<Frame<Bytes>>>>,
}

#[derive(Debug, Default)]
struct Waiting {
    pieces: AtomicUsize,
    answer: AtomicWaker,
}

/// A piece, counted until h2 drops it.
struct Piece {
    bytes: Box<[u8]>,
    waiting: Arc<Waiting>,
}

impl<B> SmallPieces<B> {
    pub(super) fn new(body: B, joins: bool) -> Self {
        Self { body, joins, waiting: None, joined: Vec::new(), next: None }
    }

    /// Whether pieces wait here until the connection has written earlier ones.
    pub(super) fn are_waiting(&self) -> bool {
        !self.joined.is_empty()
    }

    /// Whether h2 holds so many pieces that the next one must wait. If so, `cx` is woken when h2 has written
    /// one.
    fn must_wait(&self, cx: &Context<'_>) -> bool {
        let Some(waiting) = &self.waiting else { return false };
        if waiting.pieces.load(Ordering::Acquire) < MAX_WAITING {
            return false;
        }
        // Checked again: a piece that was dropped before the waker was registered would not wake it.
        waiting.answer.register(cx.waker());
        waiting.pieces.load(Ordering::Acquire) >= MAX_WAITING
    }

    fn take_joined(&mut self) -> Frame<Bytes> {
        let joined = std::mem::take(&mut self.joined);
        Frame::data(if joined.len() < LARGE { self.counted(joined.into()) } else { joined.into() })
    }

    fn counted(&mut self, bytes: Box<[u8]>) -> Bytes {
        let waiting = self.waiting.get_or_insert_default().clone();
        waiting.pieces.fetch_add(1, Ordering::Relaxed);
        Bytes::from_owner(Piece { bytes, waiting })
    }
}

impl<B: Body<Data = Bytes> + Unpin> SmallPieces<B> {
    /// The frame that may be sent now; `None` if it was merged into those that wait.
    fn pass(&mut self, frame: Frame<Bytes>, cx: &Context<'_>) -> Option<Frame<Bytes>> {
        let small = frame.data_ref().filter(|data| data.len() < LARGE);
        match small {
            Some(data) if self.are_waiting() || self.must_wait(cx) => {
                self.joined.extend_from_slice(data);
                None
            }
            // The only piece of a short answer.
            Some(_) if self.waiting.is_none() && self.body.is_end_stream() => Some(frame),
            Some(data) => {
                let copy = Box::from(&**data);
                Some(Frame::data(self.counted(copy)))
            }
            None if self.are_waiting() => {
                self.next = Some(Some(Box::new(frame)));
                Some(self.take_joined())
            }
            None => Some(frame),
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for SmallPieces<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        if !this.joins {
            return Pin::new(&mut this.body).poll_frame(cx);
        }
        if let Some(next) = this.next.take() {
            return Poll::Ready(next.map(|frame| Ok(*frame)));
        }
        loop {
            if this.joined.len() >= LARGE || (this.are_waiting() && !this.must_wait(cx)) {
                return Poll::Ready(Some(Ok(this.take_joined())));
            }
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Some(frame) = this.pass(frame, cx) {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                }
                None if this.are_waiting() => {
                    this.next = Some(None);
                    return Poll::Ready(Some(Ok(this.take_joined())));
                }
                // After an error, h2 drops the waiting pieces.
                ended => return Poll::Ready(ended),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.next {
            Some(next) => next.is_none(),
            None => !self.are_waiting() && self.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.waiting.pieces.fetch_sub(1, Ordering::Release);
        self.waiting.answer.wake();
    }
}

/// Small pieces of an answer that h2 may hold.
const MAX_WAITING: usize = 32;
/// h2 holds 64 KiB of an answer, so at most 16 pieces of this length.
const LARGE: usize = 4 * 1024;

#[cfg(test)]
mod tests;
