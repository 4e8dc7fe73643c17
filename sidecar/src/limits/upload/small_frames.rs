//! Bounds the memory of small DATA frames that have arrived on an HTTP/2 connection and are not read.
//!
//! HTTP/2's windows limit the unread bytes of bodies, but not the number of their frames (RFC 9113,
//! 6.9). Each frame takes an entry in h2, and retains the whole read buffer in which it arrived. So
//! h2 counts small frames, and closes a connection with too many. The front proxy's connection
//! carries the requests of all users: [`SmallFrames`] counts before h2 does, by stream and by user,
//! and ends the largest request of the largest user.

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::{HashMap, HashMapExt};

use super::frame_memory::{ENTRY, FrameMemory};
use crate::base::locked::Locked;
use crate::limits::cutoff::Cutoff;
use crate::limits::in_flight::Caller;

/// The small DATA frames of one connection that have arrived and are not read.
#[derive(Debug, Default)]
pub struct SmallFrames(Locked<State>);

#[derive(Debug, Default)]
struct State {
    /// The stream whose request arrived last, until the connection is read again.
    opened: Option<u32>,
    uploads: BTreeMap<u32, Unread>,
    /// The memory of all uploads' unread frames.
    memory: usize,
    /// Frames of finished requests, which h2 counts until the connection closes.
    lost: usize,
}

/// The unread frames of one upload.
#[derive(Debug)]
struct Unread {
    holder: Holder,
    frames: FrameMemory,
    cutoff: Arc<Cutoff>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    /// Until its login, a stream is its own holder.
    Stream(u32),
    Caller(Caller),
}

/// An upload's entry in its connection's list, removed on drop.
#[derive(Debug)]
pub struct Counted {
    frames: Arc<SmallFrames>,
    stream: u32,
}

/// The head of a DATA frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    pub stream: u32,
    pub length: usize,
    /// Bytes of the connection before the frame's payload.
    pub position: usize,
}

/// What the connection must do after a frame has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Then {
    GoOn,
    /// Take no more requests, because a limit is near.
    Retire,
    /// Close at once.
    End,
}

impl SmallFrames {
    /// Notes that the head of a request has arrived. If hyper accepts the request, it calls the service
    /// before it reads the connection again.
    pub fn opened(&self, stream: u32) {
        self.0.with(|state| state.opened = Some(stream));
    }

    /// Notes that everything that arrived before has been handled.
    pub fn handled(&self) {
        self.0.with(|state| state.opened = None);
    }

    /// Begins to count the frames of the request that arrived last.
    pub(super) fn begin(self: &Arc<Self>, cutoff: &Arc<Cutoff>) -> Option<Counted> {
        let stream = self.0.with(|state| {
            let stream = state.opened.take()?;
            let (holder, cutoff) = (Holder::Stream(stream), cutoff.clone());
            state.uploads.insert(stream, Unread { holder, frames: FrameMemory::default(), cutoff });
            Some(stream)
        })?;
        Some(Counted { frames: self.clone(), stream })
    }

    /// Notes that a frame has arrived. While too much is unread, the largest requests are ended.
    pub fn arrived(&self, data: Data) -> Then {
        if !is_small(data.length) {
            return Then::GoOn;
        }
        self.0.with(|state| {
            match state.uploads.get_mut(&data.stream) {
                Some(unread) => state.memory += unread.frames.add(data),
                None => state.lost += 1,
            }
            while state.memory > MAX_UNREAD
                && let Some(largest) = state.largest()
                && let Some(ended) = state.remove(largest)
            {
                ended.cut();
            }
            if state.lost > MAX_LOST { Then::Retire } else { Then::GoOn }
        })
    }

    /// Notes an empty frame that does not end its request and is therefore useless. h2 closes a
    /// connection after 100 of them.
    pub fn empty_arrived(&self) -> Then {
        self.0.with(|state| {
            state.lost += MAX_LOST / MAX_EMPTY;
            if state.lost > MAX_LOST { Then::Retire } else { Then::GoOn }
        })
    }
}

impl State {
    /// The largest stream of the largest holder.
    fn largest(&self) -> Option<u32> {
        let mut holders = HashMap::<_, usize>::new();
        for unread in self.uploads.values() {
            *holders.entry(unread.holder).or_default() += unread.frames.total();
        }
        let (holder, _) = holders.into_iter().max_by_key(|(_, memory)| *memory)?;
        let streams = self.uploads.iter().filter(|(_, unread)| unread.holder == holder);
        streams.max_by_key(|(_, unread)| unread.frames.total()).map(|(stream, _)| *stream)
    }

    fn remove(&mut self, stream: u32) -> Option<Arc<Cutoff>> {
        let unread = self.uploads.remove(&stream)?;
        self.memory -= unread.frames.total();
        Some(unread.cutoff)
    }
}

impl Counted {
    pub(super) fn charge(&self, caller: Caller) {
        self.frames.0.with(|state| {
            if let Some(unread) = state.uploads.get_mut(&self.stream) {
                unread.holder = Holder::Caller(caller);
            }
        });
    }

    pub(super) fn read(&self) {
        self.frames.0.with(|state| {
            if let Some(unread) = state.uploads.get_mut(&self.stream) {
                state.memory -= unread.frames.remove();
            }
        });
    }
}

#[cfg(test)]
impl Counted {
    pub(super) fn stream(&self) -> u32 {
        self.stream
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let cutoff = self.frames.0.with(|state| state.remove(self.stream));
        drop(cutoff);
    }
}

/// Whether the frames of this length are counted.
pub const fn is_small(length: usize) -> bool {
    length > 0 && length < SMALL
}

/// 32 larger frames fill a stream's window, so there are few of them.
const SMALL: usize = 2 * 1024;
/// Enough for some unread frames of every stream, each in its own read buffer.
const MAX_UNREAD: usize = 8 * 1024 * 1024;
const MAX_LOST: usize = 256 * 1024;
const MAX_EMPTY: usize = 64;
/// h2 closes a connection when the small frames in its count take half of this window: it counts at most 256
/// for each. Requests that continue after the connection was retired can lose seven times as many
/// frames as before. The windows of the streams limit the bytes.
pub const CONNECTION_WINDOW: u32 = 1024 * 1024 * 1024;

const _: () = assert!(CONNECTION_WINDOW as usize / 2 >= 8 * MAX_LOST * ENTRY);

#[cfg(test)]
mod tests;
