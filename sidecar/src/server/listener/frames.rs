//! Finds the heads of requests and the DATA frames in the bytes of an HTTP/2 connection (RFC 9113, 4.1, 6.1,
//! 6.2 and 6.10).

use crate::limits::upload::small_frames::Data;

/// A reader of frame heads.
#[derive(Debug)]
pub(super) struct Frames {
    head: [u8; HEAD],
    /// Bytes of the head so far.
    filled: usize,
    /// Bytes until the next head.
    skipped: usize,
    /// Bytes so far.
    position: usize,
    /// The newest stream, because only a new stream's HEADERS begin a request.
    newest: u32,
    block: Block,
}

/// The header block of a new request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    None,
    Begun(u32),
    /// It ends with the frame that is being read.
    Last(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A request's head is complete.
    Request(u32),
    /// A DATA frame begins.
    Data(Data),
    /// A DATA frame that is empty and does not end its request.
    EmptyData,
}

impl Default for Frames {
    fn default() -> Self {
        Self { head: [0; HEAD], filled: 0, skipped: PREFACE, position: 0, newest: 0, block: Block::None }
    }
}

impl Frames {
    /// The maximum number of bytes to read, so that they contain at most one found head, at their
    /// end.
    pub(super) fn room(&self) -> usize {
        match self.block {
            Block::Last(_) => self.skipped,
            Block::None | Block::Begun(_) => self.skipped + HEAD - self.filled,
        }
    }

    /// Reads at most [`Frames::room`] bytes.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Option<Found> {
        self.position += bytes.len();
        let (skipped, head) = bytes.split_at(bytes.len().min(self.skipped));
        self.skipped -= skipped.len();
        if !skipped.is_empty()
            && self.skipped == 0
            && let Some(found) = self.request()
        {
            return Some(found);
        }
        self.head[self.filled..][..head.len()].copy_from_slice(head);
        self.filled += head.len();
        if self.filled < HEAD {
            return None;
        }
        self.filled = 0;
        let [a, b, c, kind, flags, id @ ..] = self.head;
        let (length, stream) = (u32::from_be_bytes([0, a, b, c]), u32::from_be_bytes(id) & STREAM);
        self.skipped = length as usize;
        let ends_block = flags & END_HEADERS != 0;
        match kind {
            DATA if length == 0 => return (flags & END_STREAM == 0).then_some(Found::EmptyData),
            DATA => {
                // A frame with padding counts as the shortest one that it can be.
                let length =
                    if flags & PADDED == 0 { length } else { length.saturating_sub(MAX_PADDING).max(1) };
                return Some(Found::Data(Data { stream, length: length as usize, position: self.position }));
            }
            HEADERS if stream > self.newest => {
                self.newest = stream;
                self.block = if ends_block { Block::Last(stream) } else { Block::Begun(stream) };
            }
            CONTINUATION if ends_block && let Block::Begun(stream) = self.block => {
                self.block = Block::Last(stream);
            }
            _ => {}
        }
        if length == 0 { self.request() } else { None }
    }

    /// The request whose head is complete, if one is.
    fn request(&mut self) -> Option<Found> {
        let Block::Last(stream) = self.block else { return None };
        self.block = Block::None;
        Some(Found::Request(stream))
    }
}

const HEAD: usize = 9;
/// The client's connection preface (3.4).
const PREFACE: usize = 24;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const PADDED: u8 = 8;
/// With the field of its length (6.1).
const MAX_PADDING: u32 = 256;
const END_HEADERS: u8 = 4;
/// The first bit is reserved.
const STREAM: u32 = 0x7fff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, length: usize) -> Vec<u8> {
        let size = u32::try_from(length).unwrap().to_be_bytes();
        [&size[1..], &[kind, flags], &stream.to_be_bytes(), &vec![0; length]].concat()
    }

    #[test]
    fn requests_and_data_are_found_in_any_pieces() {
        let frames = [
            frame(4, 0, 0, 18),
            frame(HEADERS, END_HEADERS, 1, 100),
            frame(HEADERS, 0, 3, 10),
            frame(CONTINUATION, 0, 3, 10),
            frame(CONTINUATION, END_HEADERS, 3, 0),
            frame(DATA, 0, 3, 255),
            frame(DATA, 0, 1, 0),
            frame(DATA, END_STREAM, 1, 0),
            // The reserved bit is set.
            frame(DATA, 0, 1 << 31 | 3, 16_384),
            frame(DATA, PADDED, 3, 2_200),
            frame(DATA, PADDED, 3, 10),
            // Trailers.
            frame(HEADERS, END_HEADERS | END_STREAM, 3, 20),
            frame(HEADERS, END_HEADERS, 7, 20),
        ];
        let bytes = [vec![0; PREFACE], frames.concat()].concat();
        let data = |stream, length, position| Found::Data(Data { stream, length, position });
        for size in 1..=bytes.len() {
            let (mut reader, mut found, mut rest) = (Frames::default(), Vec::new(), &bytes[..]);
            while !rest.is_empty() {
                let (piece, later) = rest.split_at(size.min(reader.room()).min(rest.len()));
                found.extend(reader.read(piece));
                rest = later;
            }
            assert_eq!(
                found,
                [
                    Found::Request(1),
                    Found::Request(3),
                    data(3, 255, 216),
                    Found::EmptyData,
                    data(3, 16_384, 498),
                    data(3, 1_944, 16_891),
                    data(3, 1, 19_100),
                    Found::Request(7)
                ],
                "in pieces of {size}"
            );
        }
    }
}
