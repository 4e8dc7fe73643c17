//! How much may be under way at once (apiserver: `filters/maxinflight.go`): reads and writes apart,
//! in all and per member. What is admitted in all is many times what one member may hold, so that a
//! few members that hang leave room for the others. Long-running requests are not counted, as
//! upstream; their number is bounded by the connections and streams that the listener admits.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits of this process.
#[derive(Debug)]
pub struct Limits {
    reads: Bound,
    writes: Bound,
}

/// One number that may not be passed; `None` is no limit.
#[derive(Clone, Debug)]
pub struct Bound(Option<Arc<Semaphore>>);

/// Leave to be under way, given back on drop.
#[derive(Debug)]
pub struct Permit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Limits {
    /// 0 is no limit.
    pub fn new(reads: usize, writes: usize) -> Self {
        Self { reads: Bound::new(reads), writes: Bound::new(writes) }
    }

    /// Admits a request that is not long-running.
    pub fn admit(&self, is_read: bool) -> Result<Permit, Error> {
        let bound = if is_read { &self.reads } else { &self.writes };
        bound.admit().ok_or(Error::InAll)
    }
}

impl Bound {
    /// 0 is no limit.
    pub fn new(limit: usize) -> Self {
        Self((limit > 0).then(|| Arc::new(Semaphore::new(limit))))
    }

    /// Admits one more, or nobody.
    pub fn admit(&self) -> Option<Permit> {
        match &self.0 {
            None => Some(Permit { _permit: None }),
            Some(semaphore) => {
                let permit = semaphore.clone().try_acquire_owned().ok()?;
                Some(Permit { _permit: Some(permit) })
            }
        }
    }
}

/// Why a request must come again later.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("too many requests are under way, try again later")]
    InAll,
    #[error("too many requests to member {0} are under way, try again later")]
    ForMember(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_counted_apart_and_given_back() {
        let limits = Limits::new(1, 1);
        let read = limits.admit(true).unwrap();
        assert!(matches!(limits.admit(true), Err(Error::InAll)));
        let write = limits.admit(false).unwrap();
        drop(read);
        assert!(limits.admit(true).is_ok());
        drop(write);
    }

    #[test]
    fn zero_is_no_limit() {
        let limits = Limits::new(0, 0);
        let permits: Vec<_> = (0..10_000).map(|_| limits.admit(true).unwrap()).collect();
        assert_eq!(permits.len(), 10_000);
    }
}
