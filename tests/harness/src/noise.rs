//! Pseudorandom bytes, so that a lost, repeated or moved byte changes the digest.

use std::fmt::Write;
use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};

/// `length` bytes, the same for the same seed.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        // xorshift64: fast enough for 64 MiB in a debug build, and nothing compresses it.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A stream of noise that is too long for memory, sent or compared piece by piece.
#[derive(Clone, Debug)]
pub struct Noise {
    at: usize,
    left: u64,
}

impl Noise {
    pub fn new(seed: u64, length: u64) -> Self {
        let at = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % RING.len() as u64;
        Self { at: at as usize, left: length }
    }

    /// How many bytes are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next piece, of at most this many bytes; empty at the end.
    pub fn piece(&mut self, most: usize) -> &'static [u8] {
        let most = usize::try_from(self.left).unwrap_or(most).min(most);
        let piece = &RING[self.at..][..most.min(RING.len() - self.at)];
        self.at = (self.at + piece.len()) % RING.len();
        self.left -= piece.len() as u64;
        piece
    }

    /// Whether these bytes come next.
    pub fn continues(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let piece = self.piece(bytes.len());
            if piece.is_empty() || !bytes.starts_with(piece) {
                return false;
            }
            bytes = &bytes[piece.len()..];
        }
        true
    }
}

/// Streams of noise are cut from this ring, each starting at its own offset. The length of the ring
/// has no common factor with that of any buffer.
static RING: LazyLock<Vec<u8>> = LazyLock::new(|| noise(4711, 4 * MEBIBYTE + 37));

/// Pseudorandom numbers, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below this.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % end as u64) as usize
    }

    /// A number from 1 to about this; each magnitude is equally likely, so small numbers are as frequent as
    /// large ones.
    pub fn size(&mut self, most: usize) -> usize {
        let bits = usize::BITS - most.leading_zeros();
        let magnitude = 1 << self.below(bits as usize);
        magnitude + self.below(magnitude)
    }
}

/// The digest as sha256sum(1) writes it.
pub fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The number of bytes for tests of large transfers.
pub const MUCH: usize = 64 * MEBIBYTE;
pub const MEBIBYTE: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_formatted_as_by_sha256sum() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn noise_stream_is_the_same_in_pieces_of_any_size() {
        let (mut pieces, mut whole) = (Noise::new(1, 10_000_000), Vec::new());
        let mut dice = Dice::new(1);
        while pieces.left() > 0 {
            whole.extend_from_slice(pieces.piece(dice.size(65536)));
        }
        assert_eq!(whole.len(), 10_000_000);
        assert!(Noise::new(1, 10_000_000).continues(&whole));
        assert!(!Noise::new(2, 10_000_000).continues(&whole));
        assert!(!Noise::new(1, 9_999_999).continues(&whole), "one too many");
        whole.remove(5_000_000);
        assert!(!Noise::new(1, 10_000_000).continues(&whole), "one is lost");
    }

    #[test]
    fn noise_depends_on_its_seed_alone() {
        assert_eq!(noise(1, 1001), noise(1, 1001));
        assert_eq!(noise(1, 1001).len(), 1001);
        assert_ne!(noise(1, 1001), noise(2, 1001));
    }
}
