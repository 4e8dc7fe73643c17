//! Estimates the memory of small DATA frames that have arrived and are unread.

use super::small_frames::Data;

/// The unread frames of one upload, or of one connection.
#[derive(Debug, Default)]
pub(super) struct FrameMemory {
    /// Frames that share the read buffer of the previous one.
    sharing: usize,
    /// Frames that keep a read buffer.
    keeping: usize,
    /// The read buffer of the last unread frame.
    buffer: Option<usize>,
}

impl FrameMemory {
    /// Returns the memory that the frame takes.
    pub(super) fn add(&mut self, data: Data) -> usize {
        let buffer = data.position / READ_BUFFER;
        if self.buffer.replace(buffer) == Some(buffer) {
            self.sharing += 1;
            return ENTRY;
        }
        self.keeping += 1;
        ENTRY + READ_BUFFER
    }

    /// Returns the memory that was freed by reading a frame. Which frame was read is unknown, so
    /// read buffers count for as long as possible.
    pub(super) fn remove(&mut self) -> usize {
        if self.sharing > 0 {
            self.sharing -= 1;
            return ENTRY;
        }
        if self.keeping == 0 {
            return 0;
        }
        self.keeping -= 1;
        if self.keeping == 0 {
            self.buffer = None;
        }
        ENTRY + READ_BUFFER
    }

    pub(super) fn total(&self) -> usize {
        (self.sharing + self.keeping) * ENTRY + self.keeping * READ_BUFFER
    }
}

/// h2's entry for an unread frame. Its list does not shrink until the connection ends.
pub(super) const ENTRY: usize = 256;
/// The size of h2's read buffers (tokio-util: `INITIAL_CAPACITY`).
pub(super) const READ_BUFFER: usize = 8 * 1024;
