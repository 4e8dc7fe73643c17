//! The holder of a seat.

use super::level::Level;

/// The holder of a seat, which has a share of each limit: a user, the accounts of a namespace, or an address. Two
/// holders with the same hash have one share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    pub(super) key: u64,
    pub(super) level: Level,
}

impl Caller {
    /// A holder other than a user, by the hash of its key.
    pub const fn of_hash(key: u64) -> Self {
        Self { key, level: Level::Interactive }
    }
}
