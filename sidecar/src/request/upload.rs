//! The body of a caller's request.
//!
//! HTTP/2's windows bound the bytes of bodies that are not read, but not the number of their DATA frames
//! (RFC 9113, 6.9), each of which takes memory. So h2 counts small frames, and closes a connection with too
//! many. The front proxy's connection carries the requests of all users: [`SmallFrames`] counts the same
//! frames before h2 does, and ends the requests whose bodies wait to be read.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use slab::Slab;

use crate::locked::Locked;
use crate::request::cutoff::Cutoff;

/// A request's body as it arrives.
#[derive(Debug)]
pub struct Upload<B = Incoming>
where
    B: Body<Data = Bytes> + Unpin,
{
    body: B,
    counted: Option<Counted>,
}

/// The small DATA frames of one connection that have arrived and are not read.
#[derive(Debug, Default)]
pub struct SmallFrames {
    unread: AtomicUsize,
    /// How often there were too many.
    overflows: AtomicUsize,
    uploads: Locked<Slab<Arc<Progress>>>,
}

/// An upload's entry in its connection's list, removed on drop.
#[derive(Debug)]
struct Counted {
    frames: Arc<SmallFrames>,
    key: usize,
    progress: Arc<Progress>,
}

#[derive(Debug)]
struct Progress {
    cutoff: Arc<Cutoff>,
    /// Whether a part may have arrived that is not read.
    is_behind: AtomicBool,
}

/// What a connection must do after more frames have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    GoOn,
    /// Take no more requests: frames may have been lost to the count of h2.
    Retire,
}

impl<B: Body<Data = Bytes> + Unpin> Upload<B> {
    /// The body of a request on a connection whose small frames are counted by `frames`, if they are.
    pub fn new(body: B, frames: Option<&Arc<SmallFrames>>, cutoff: &Arc<Cutoff>) -> Self {
        let frames = frames.filter(|_| !body.is_end_stream());
        let counted = frames.map(|frames| {
            let progress = Arc::new(Progress { cutoff: cutoff.clone(), is_behind: AtomicBool::new(true) });
            let key = frames.uploads.with(|uploads| uploads.insert(progress.clone()));
            Counted { frames: frames.clone(), key, progress }
        });
        Self { body, counted }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Upload<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Some(counted) = &self.counted {
            counted.progress.is_behind.store(polled.is_ready(), Ordering::Relaxed);
            if let Poll::Ready(Some(Ok(frame))) = &polled
                && frame.data_ref().is_some_and(|data| is_small(data.len()))
            {
                counted.frames.read();
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Body<Data = Bytes> + Unpin> Drop for Upload<B> {
    /// Reads what has arrived: neither this count nor h2's learns how much of a body was dropped.
    fn drop(&mut self) {
        if self.counted.is_some() {
            let mut cx = Context::from_waker(Waker::noop());
            let next = || Pin::new(&mut *self).poll_frame(&mut cx);
            let arrived = std::iter::repeat_with(next).take(MAX_UNREAD);
            arrived.take_while(|frame| matches!(frame, Poll::Ready(Some(Ok(_))))).for_each(drop);
        }
    }
}

impl SmallFrames {
    /// Notes that small frames have arrived. If too many are not read, the requests end whose bodies are
    /// behind.
    pub fn arrived(&self, count: usize) -> Then {
        if self.unread.fetch_add(count, Ordering::Relaxed) + count <= MAX_UNREAD {
            return Then::GoOn;
        }
        self.unread.store(0, Ordering::Relaxed);
        self.uploads.with(|uploads| {
            for (_, progress) in
                uploads.iter().filter(|(_, progress)| progress.is_behind.load(Ordering::Relaxed))
            {
                progress.cutoff.cut();
            }
        });
        match self.overflows.fetch_add(1, Ordering::Relaxed) + 1 < MAX_OVERFLOWS {
            true => Then::GoOn,
            false => Then::Retire,
        }
    }

    fn read(&self) {
        _ = self.unread.try_update(Ordering::Relaxed, Ordering::Relaxed, |unread| unread.checked_sub(1));
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let entry = self.frames.uploads.with(|uploads| uploads.try_remove(self.key));
        drop(entry);
    }
}

/// Whether h2 counts a DATA frame of this length (h2: `DEFAULT_DATA_FRAME_OVERHEAD_THRESHOLD`).
pub const fn is_small(length: usize) -> bool {
    length > 0 && length < SMALL
}

/// For a frame of n bytes h2 counts this minus n.
const SMALL: usize = 256;
/// About 3 MB of memory.
const MAX_UNREAD: usize = 16 * 1024;
/// h2 also counts frames of bodies that were dropped unread, for as long as the connection lasts.
const MAX_OVERFLOWS: usize = 4;
/// With this connection window h2 closes a connection after four times as many small frames as can be unread
/// until it retires: its limit is half of the window.
pub const CONNECTION_WINDOW: u32 = 128 * 1024 * 1024;

const _: () = assert!(CONNECTION_WINDOW as usize / 2 >= 4 * MAX_OVERFLOWS * MAX_UNREAD * SMALL);

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    fn is_cut(cutoff: &Cutoff) -> bool {
        cutoff.poll_cut(&Context::from_waker(Waker::noop())).is_ready()
    }

    fn upload(frames: &Arc<SmallFrames>, is_behind: bool) -> (Counted, Arc<Cutoff>) {
        let (cutoff, is_behind) = (Arc::<Cutoff>::default(), AtomicBool::new(is_behind));
        let progress = Arc::new(Progress { cutoff: cutoff.clone(), is_behind });
        let key = frames.uploads.with(|uploads| uploads.insert(progress.clone()));
        (Counted { frames: frames.clone(), key, progress }, cutoff)
    }

    #[test]
    fn frames_that_are_read_are_not_counted() {
        let frames = Arc::new(SmallFrames::default());
        let (_kept, cutoff) = upload(&frames, true);
        for _ in 0..2 * MAX_UNREAD {
            assert_eq!(frames.arrived(1), Then::GoOn);
            frames.read();
        }
        assert!(!is_cut(&cutoff));
    }

    #[test]
    fn frames_of_a_dropped_body_are_not_counted() {
        let frames = Arc::new(SmallFrames::default());
        let upload = Upload::new(Full::new(Bytes::from_static(b"word")), Some(&frames), &Arc::default());
        assert_eq!(frames.arrived(1), Then::GoOn);
        drop(upload);
        assert_eq!(frames.unread.load(Ordering::Relaxed), 0);
        assert!(frames.uploads.with(|uploads| uploads.is_empty()));
    }

    #[test]
    fn too_many_unread_frames_end_the_uploads_that_are_behind() {
        let frames = Arc::new(SmallFrames::default());
        let (_kept, behind) = upload(&frames, true);
        let (_kept, prompt) = upload(&frames, false);
        frames.arrived(MAX_UNREAD);
        assert!(!is_cut(&behind));
        frames.arrived(1);
        assert!(is_cut(&behind) && !is_cut(&prompt));
    }

    #[test]
    fn connection_retires_before_h2_closes_it() {
        let frames = SmallFrames::default();
        let overflows = (1..).find(|_| frames.arrived(MAX_UNREAD + 1) == Then::Retire).unwrap();
        assert_eq!(overflows, MAX_OVERFLOWS);
    }
}
