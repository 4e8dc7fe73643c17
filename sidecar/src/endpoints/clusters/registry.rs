//! Holds the known MemberClusters: a snapshot that one writer replaces and all readers share, with a bounded
//! log of recent changes. A watch follows the log by position, so a slow watch holds no memory: it catches
//! up, or gets an error when its position has left the log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kubectl_mc_api::MemberCluster;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::error::Error;
use super::object::{Cluster, resource_version};

/// The MemberClusters as last reported by the host. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Registry {
    known: watch::Receiver<Known>,
    /// The tasks that write watches. Each ends with its watch, or when the [`Writer`] is dropped.
    pub(super) watches: TaskTracker,
}

/// Updates a [`Registry`] from the host. Watches end when it is dropped.
#[derive(Debug)]
pub struct Writer {
    known: watch::Sender<Known>,
}

/// `None` before the first complete list.
pub(super) type Known = Option<Arc<Snapshot>>;

/// The clusters at one moment, with the recent changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// The resourceVersion of the collection: the greatest one seen.
    pub(super) version: u64,
    pub(super) clusters: Clusters,
    /// Counts the lists. No watch continues across a list, because deletions may have been missed before it.
    pub(super) lists: u64,
    /// Recent changes, oldest first.
    log: VecDeque<Arc<Change>>,
    /// Every change after this version is in the log.
    floor: u64,
}

pub(super) type Clusters = BTreeMap<Arc<str>, Arc<Cluster>>;

/// One cluster before and after a change; one of the two may be absent.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) before: Option<Arc<Cluster>>,
    pub(super) after: Option<Arc<Cluster>>,
}

impl Registry {
    /// Creates an empty registry, which answers "not synced" until its writer has a list.
    pub fn new() -> (Self, Writer) {
        let (sender, known) = watch::channel(None);
        (Self { known, watches: TaskTracker::new() }, Writer { known: sender })
    }

    /// Resolves when all watches have ended; drop the [`Writer`] first.
    pub async fn drained(&self) {
        self.watches.close();
        self.watches.wait().await;
    }

    pub(super) fn snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        self.known.borrow().clone().ok_or(Error::NotSynced)
    }

    /// The clusters at `version` or later. Waits a short time for a version that is not known yet.
    pub(super) async fn not_older_than(&self, version: u64) -> Result<Arc<Snapshot>, Error> {
        let current = self.snapshot()?.version;
        let mut known = self.known.clone();
        let fresh = known.wait_for(|known| known.as_ref().is_some_and(|known| known.version >= version));
        let snapshot =
            timeout(FRESHNESS_TIMEOUT, fresh).await.ok().and_then(Result::ok).and_then(|known| known.clone());
        snapshot.ok_or(Error::TooLargeResourceVersion { asked: version, current })
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Known> {
        self.known.clone()
    }
}

impl Writer {
    /// Takes a complete list. Open watches end as expired, because the deletions before the list are not
    /// known.
    ///
    /// `version` is the list's own resourceVersion, or a slightly older one. Unlike the greatest version of
    /// the items, it is greater than the version of every deletion before the list. So a watch that saw a
    /// cluster at another replica, but not its deletion, must start again.
    pub fn replace(&mut self, all: Vec<MemberCluster>, version: u64) {
        let clusters: Clusters = all
            .into_iter()
            .map(|member| Arc::new(Cluster::from(member)))
            .map(|cluster| (cluster.name().into(), cluster))
            .collect();
        let version = clusters.values().map(|cluster| cluster.version).max().unwrap_or_default().max(version);
        self.known.send_modify(|known| {
            // The cluster with the greatest version may have been deleted.
            let (seen, lists) = known.as_ref().map_or((0, 0), |known| (known.version, known.lists));
            let mut next = Snapshot { clusters, lists, ..Snapshot::default() };
            next.begin_at(version.max(seen));
            *known = Some(Arc::new(next));
        });
    }

    /// Takes a new or changed cluster.
    pub fn apply(&mut self, one: MemberCluster) {
        let after = Arc::new(Cluster::from(one));
        self.change(after.version, after.name(), Some(&after));
    }

    /// Takes a deleted cluster, with the resourceVersion of its deletion.
    pub fn delete(&mut self, one: MemberCluster) {
        self.change(resource_version(&one), one.metadata.name.as_deref().unwrap_or_default(), None);
    }

    fn change(&mut self, version: u64, name: &str, after: Option<&Arc<Cluster>>) {
        self.known.send_if_modified(|known| {
            let Some(known) = known else { return false };
            // An event that is not newer is a repetition. So is the deletion of an unknown cluster.
            if known.clusters.get(name).map_or_else(|| after.is_none(), |known| known.version >= version) {
                return false;
            }
            let known = Arc::make_mut(known);
            let before = match after {
                Some(after) => known.clusters.insert(name.into(), after.clone()),
                None => known.clusters.remove(name),
            };
            if version > known.version {
                known.remember(Change { version, before, after: after.cloned() });
            } else {
                // The host was restored from a backup: versions start again, and so do the watches.
                known.begin_at(version);
            }
            true
        });
    }
}

impl Snapshot {
    /// Drops the log before a version.
    fn begin_at(&mut self, version: u64) {
        self.lists += 1;
        self.log.clear();
        (self.version, self.floor) = (version, version);
    }

    fn remember(&mut self, change: Change) {
        self.version = change.version;
        self.log.push_back(Arc::new(change));
        if self.log.len() > LOG_LENGTH
            && let Some(forgotten) = self.log.pop_front()
        {
            self.floor = forgotten.version;
        }
    }

    /// The changes after a version, oldest first, if all of them are still known.
    pub(super) fn since(&self, version: u64) -> Option<impl Iterator<Item = &Change>> {
        let seen = self.log.partition_point(|change| change.version <= version);
        (version >= self.floor).then(|| self.log.range(seen..).map(AsRef::as_ref))
    }

    /// The clusters at an earlier version, if the changes after it are still known.
    pub(super) fn at(&self, version: u64) -> Option<Clusters> {
        let changes: Vec<_> = self.since(version)?.collect();
        let mut clusters = self.clusters.clone();
        for Change { before, after, .. } in changes.into_iter().rev() {
            if let Some(after) = after {
                clusters.remove(after.name());
            }
            if let Some(before) = before {
                clusters.insert(before.name().into(), before.clone());
            }
        }
        Some(clusters)
    }
}

/// Length of the log. A thousand members that report every five minutes make about three changes a second, so
/// a watch may lag five minutes.
const LOG_LENGTH: usize = 1000;

/// How long a reader that is ahead waits for its version (apiserver: `storage/cacher`, `blockTimeout`).
const FRESHNESS_TIMEOUT: Duration = Duration::from_secs(3);

#[cfg(test)]
pub(super) mod fixtures;
#[cfg(test)]
mod tests;
