//! The bytes of a tunnel's stream that were taken from HTTP/2 and are not read yet. Small frames
//! are merged into chunks, because a separate frame takes several times its size, and memory is
//! freed chunk by chunk.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

#[derive(Debug, Default)]
pub(super) struct Received {
    chunks: VecDeque<Bytes>,
    /// The bytes that do not fill a chunk yet.
    tail: BytesMut,
}

impl Received {
    /// Copies bytes to the end.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let length = bytes.len().min(CHUNK - self.tail.len());
            self.tail.extend_from_slice(&bytes[..length]);
            bytes = &bytes[length..];
            if self.tail.len() == CHUNK {
                self.chunks.push_back(std::mem::take(&mut self.tail).freeze());
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.tail.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum::<usize>() + self.tail.len()
    }

    /// The first bytes.
    pub(super) fn chunk(&self) -> &[u8] {
        self.chunks.front().map_or(&self.tail, |first| first)
    }

    /// Removes bytes of the first chunk.
    pub(super) fn advance(&mut self, length: usize) {
        let Some(first) = self.chunks.front_mut() else {
            self.tail.advance(length);
            if self.tail.is_empty() {
                self.tail = BytesMut::new();
            }
            return;
        };
        first.advance(length);
        if first.is_empty() {
            self.chunks.pop_front();
        }
    }
}

const CHUNK: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_in_order() {
        let sent: Vec<u8> = (0..3 * CHUNK + 7).map(|n| (n % 251) as u8).collect();
        let mut received = Received::default();
        let mut read = Vec::new();
        for (n, piece) in sent.chunks(1000).enumerate() {
            received.push(piece);
            let length = (n * 97 % 900).min(received.chunk().len());
            read.extend_from_slice(&received.chunk()[..length]);
            received.advance(length);
            assert_eq!(received.len(), n * 1000 + piece.len() - read.len());
        }
        while !received.is_empty() {
            let length = received.chunk().len();
            read.extend_from_slice(received.chunk());
            received.advance(length);
        }
        assert_eq!(read, sent);
        assert_eq!(received.tail.capacity(), 0, "memory stays");
    }

    #[test]
    fn fault_66_single_bytes_share_a_chunk() {
        let mut received = Received::default();
        for _ in 0..CHUNK {
            received.push(b"x");
        }
        assert_eq!((received.chunks.len(), received.chunk().len()), (1, CHUNK));
    }
}
