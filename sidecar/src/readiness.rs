//! Whether this replica may be sent requests. Each part that must be there first holds a
//! [`Pending`]; dropping it says that the part is ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Ready when nothing is pending and the shutdown has not begun. A shutdown begins by draining, when
/// everything is still served, and ends by closing.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<State>);

#[derive(Debug, Default)]
struct State {
    pending: AtomicUsize,
    draining: AtomicBool,
    closing: AtomicBool,
}

/// A part that is not ready yet.
#[derive(Debug)]
pub struct Pending(Arc<State>);

impl Readiness {
    /// Waits for one more part.
    pub fn pending(&self) -> Pending {
        self.0.pending.fetch_add(1, Ordering::AcqRel);
        Pending(self.0.clone())
    }

    /// From now on no new requests should come.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Release);
    }

    /// Whether the shutdown has begun.
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
    }

    /// From now on nothing should begin that would not end by itself.
    pub fn close(&self) {
        self.0.closing.store(true, Ordering::Release);
    }

    pub fn is_closing(&self) -> bool {
        self.0.closing.load(Ordering::Acquire)
    }

    pub fn is_ready(&self) -> bool {
        self.0.pending.load(Ordering::Acquire) == 0 && !self.0.draining.load(Ordering::Acquire)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_when_the_last_part_is_and_until_the_shutdown() {
        let readiness = Readiness::default();
        let (first, second) = (readiness.pending(), readiness.pending());
        assert!(!readiness.is_ready());
        drop(first);
        assert!(!readiness.is_ready());
        drop(second);
        assert!(readiness.is_ready());
        readiness.drain();
        assert!(!readiness.is_ready());
    }
}
