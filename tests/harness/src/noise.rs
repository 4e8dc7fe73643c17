//! Bytes without a pattern, so that one lost, doubled or moved changes the digest.

use std::fmt::Write;

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

/// The digest as sha256sum(1) writes it.
pub fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// How much is sent where "a lot" is promised.
pub const MUCH: usize = 64 * MEBIBYTE;
pub const MEBIBYTE: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_written_as_sha256sum_does() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn noise_depends_on_its_seed_alone() {
        assert_eq!(noise(1, 1001), noise(1, 1001));
        assert_eq!(noise(1, 1001).len(), 1001);
        assert_ne!(noise(1, 1001), noise(2, 1001));
    }
}
