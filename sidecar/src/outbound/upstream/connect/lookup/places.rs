//! Bounds the threads that lookups of all members block.
//!
//! Names with silent name servers must not delay other names. So a slow lookup moves from the quick
//! slots to the slow ones, and later lookups of its name wait only for a slow slot. Names that
//! are not known to be slow wait only for a quick slot, and only as long as the slow slots are
//! all taken.

use std::future::ready;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::base::ttl_cache::TtlCache;

/// The slots of this process: connectors come and go with their members' Secrets, but their blocked threads
/// stay.
pub(super) static ALL: LazyLock<Arc<Places>> = LazyLock::new(Arc::default);

/// The slots for all lookups, assigned in the order of the requests.
#[derive(Debug)]
pub(super) struct Places {
    quick: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    slow_names: TtlCache<Name, ()>,
}

/// The slot of one lookup.
#[derive(Debug)]
pub(super) struct Place {
    permit: OwnedSemaphorePermit,
    is_slow: bool,
}

impl Default for Places {
    fn default() -> Self {
        let [quick, slow] = [QUICK, SLOW].map(|places| Arc::new(Semaphore::new(places)));
        Self { quick, slow, slow_names: TtlCache::new(MAX_NAMES, REMEMBERED) }
    }
}

impl Places {
    /// Whether the last lookup of this name, or one in progress, took long.
    pub(super) fn is_slow(&self, name: &Name) -> bool {
        self.slow_names.get(name).is_some()
    }

    /// Waits for a slot.
    pub(super) async fn take(&self, name: &Name) -> Result<Place, AcquireError> {
        let is_slow = self.is_slow(name);
        let places = if is_slow { &self.slow } else { &self.quick };
        Ok(Place { permit: places.clone().acquire_owned().await?, is_slow })
    }

    /// Runs a lookup and holds its slot until it ends.
    pub(super) async fn hold<T>(&self, place: Place, name: &Name, lookup: impl Future<Output = T>) -> T {
        let mut lookup = pin!(lookup);
        if let Ok(answer) = timeout(LONG, &mut lookup).await {
            self.slow_names.forget(name);
            return answer;
        }
        self.slow_names.get_or_fetch(name, ready(()), |()| true).await;
        let Place { permit, is_slow } = place;
        if is_slow {
            return lookup.await;
        }
        // The lookup is only borrowed, and dropping the wait for a slot leaves the queue.
        tokio::select! {
            biased;
            answer = &mut lookup => answer,
            _slow = self.slow.acquire() => {
                drop(permit);
                lookup.await
            }
        }
    }
}

/// Maximum number of concurrent quick lookups. Healthy lookups take milliseconds.
pub(super) const QUICK: usize = 64;
/// Together with the quick ones, half of a runtime's threads: the rest stays free for the host's
/// name and for files.
pub(super) const SLOW: usize = 192;
/// A working name server answers within this time, even one on another continent.
pub(super) const LONG: Duration = Duration::from_secs(1);
/// After this time a name may take a quick slot again, for [`LONG`].
const REMEMBERED: Duration = Duration::from_secs(300);
/// More than the number of members; the least recently used names are forgotten first.
const MAX_NAMES: usize = 4096;
