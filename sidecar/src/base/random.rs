//! Random numbers for jitter and unique ids. They must never serve as secrets, which `aws_lc_rs::rand`
//! creates.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// 64 random bits: a counter, hashed with random keys of this process.
pub(crate) fn bits() -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static COUNTED: AtomicU64 = AtomicU64::new(0);
    KEYS.hash_one(COUNTED.fetch_add(1, Ordering::Relaxed))
}

/// A random number from 0 to 1.
pub(crate) fn fraction() -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "any number will do")]
    let fraction = bits() as f64 / u64::MAX as f64;
    fraction
}
