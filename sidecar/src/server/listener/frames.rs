//! Finds DATA frames in the bytes of an HTTP/2 connection (RFC 9113, 4.1 and 6.1).

use crate::request::upload::is_small;

/// A reader of frame heads, which gets a client's bytes in any pieces.
#[derive(Debug)]
pub(super) struct Frames {
    head: [u8; HEAD],
    /// Bytes of the head so far.
    filled: usize,
    /// Bytes until the next head.
    skipped: usize,
}

impl Default for Frames {
    fn default() -> Self {
        Self { head: [0; HEAD], filled: 0, skipped: PREFACE }
    }
}

impl Frames {
    /// How many small DATA frames begin in these bytes. Padding counts as data: the front proxy sends none.
    pub(super) fn small_data(&mut self, mut bytes: &[u8]) -> usize {
        let mut count = 0;
        loop {
            let skipped = self.skipped.min(bytes.len());
            self.skipped -= skipped;
            bytes = &bytes[skipped..];
            let taken = bytes.len().min(HEAD - self.filled);
            if taken == 0 {
                return count;
            }
            self.head[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == HEAD {
                let [a, b, c, kind, ..] = self.head;
                let length = u32::from_be_bytes([0, a, b, c]) as usize;
                count += usize::from(kind == DATA && is_small(length));
                (self.filled, self.skipped) = (0, length);
            }
        }
    }
}

const HEAD: usize = 9;
/// The client's connection preface (3.4).
const PREFACE: usize = 24;
const DATA: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let size = u32::try_from(length).unwrap().to_be_bytes();
        [&size[1..], &[kind, 0, 0, 0, 0, 1], &vec![0; length]].concat()
    }

    #[test]
    fn small_data_frames_are_found_in_any_pieces() {
        let frames = [(4, 18), (1, 100), (DATA, 0), (DATA, 1), (DATA, 255), (DATA, 256), (8, 4), (DATA, 9)];
        let frames = frames.iter().flat_map(|(kind, length)| frame(*kind, *length));
        let bytes: Vec<u8> = [0; PREFACE].into_iter().chain(frames).collect();
        for size in 1..=bytes.len() {
            let mut reader = Frames::default();
            let count: usize = bytes.chunks(size).map(|piece| reader.small_data(piece)).sum();
            assert_eq!(count, 3, "in pieces of {size}");
        }
    }
}
