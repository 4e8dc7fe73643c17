//! Random numbers that spread what would happen together and make ids unlike. None of them may be a secret: what must
//! be is made by `aws_lc_rs::rand`.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Any 64 bits: a number that counts up, hashed by keys that are random in each process.
pub(crate) fn bits() -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static COUNTED: AtomicU64 = AtomicU64::new(0);
    KEYS.hash_one(COUNTED.fetch_add(1, Ordering::Relaxed))
}

/// Any number from 0 to 1.
pub(crate) fn fraction() -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "any number will do")]
    let fraction = bits() as f64 / u64::MAX as f64;
    fraction
}
