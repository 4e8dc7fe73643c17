//! The fleet view's settings, and the limits that all its requests share.

use std::sync::Arc;

use crate::fleet::shares::Shared;
use crate::identity::impersonation::member::Rules;
use crate::limits::in_flight::{Bound, Size};

/// The fleet view's settings and limits.
#[derive(Debug)]
pub struct Fleet {
    pub(super) merged: Bound,
    pub(super) watches: Arc<Shared>,
    pub(super) memory: Arc<Shared>,
    pub(super) rules: Arc<Rules>,
}

/// The sizes of the limits.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Merged requests at once, without watches.
    pub merged_requests: usize,
    /// Watches at members for merged watches, in all and by caller.
    pub member_watches: [usize; 2],
}

impl Default for Config {
    fn default() -> Self {
        Self { merged_requests: 64, member_watches: [10_000, 4_000] }
    }
}

impl Fleet {
    pub fn new(config: Config, rules: Rules) -> Self {
        let merged = Bound::new(Size::without_queue(config.merged_requests));
        let [all, by_caller] = config.member_watches;
        let (watches, memory) = (Shared::new(all, by_caller), Shared::new(MEMORY, MEMORY_BY_CALLER));
        Self { merged, watches, memory, rules: Arc::new(rules) }
    }
}

/// Objects of members in the view's requests that are not complete or not sent, of all callers and of one.
const MEMORY: usize = 256 * 1024 * 1024;
const MEMORY_BY_CALLER: usize = 64 * 1024 * 1024;
