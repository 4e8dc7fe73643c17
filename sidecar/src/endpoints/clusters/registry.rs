//! What is known of the MemberClusters: a snapshot that one writer replaces and everybody reads, and
//! in it a bounded log of recent changes. A watch follows the log by position, so a slow one holds
//! nothing: it catches up, or it is told that its position is gone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kubectl_mc_api::MemberCluster;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::Error;
use super::object::{Cluster, resource_version};

/// The MemberClusters as they were last heard of. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Registry {
    known: watch::Receiver<Known>,
    /// The tasks that write watches; each ends with its watch, or when the [`Writer`] is dropped.
    pub(super) watches: TaskTracker,
}

/// The one who tells a [`Registry`] what the host says. Watches end when it is dropped.
#[derive(Debug)]
pub struct Writer {
    known: watch::Sender<Known>,
}

/// Nothing, before the first complete list.
pub(super) type Known = Option<Arc<Snapshot>>;

/// The clusters at one moment, and how they came to be.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// The resourceVersion of the collection: the greatest that was heard of.
    pub(super) version: u64,
    pub(super) clusters: Clusters,
    /// Counts the lists. No watch goes on over one: deletions may have been lost before it.
    pub(super) lists: u64,
    /// Recent changes, the oldest first.
    log: VecDeque<Arc<Change>>,
    /// Every change after this version is in the log.
    floor: u64,
}

pub(super) type Clusters = BTreeMap<Arc<str>, Arc<Cluster>>;

/// One cluster before and after something happened to it; one of the two may be missing.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) before: Option<Arc<Cluster>>,
    pub(super) after: Option<Arc<Cluster>>,
}

impl Registry {
    /// An empty registry that answers "not yet" until its writer knows more.
    pub fn new() -> (Self, Writer) {
        let (sender, known) = watch::channel(None);
        (Self { known, watches: TaskTracker::new() }, Writer { known: sender })
    }

    /// Resolves when no watch is being written any more; drop the [`Writer`] first.
    pub async fn drained(&self) {
        self.watches.close();
        self.watches.wait().await;
    }

    pub(super) fn snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        self.known.borrow().clone().ok_or(Error::NotSynced)
    }

    /// The clusters as of `version` or later; waits a little for a version that was not heard of.
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
    /// Takes a complete list. Watches that are under way end as expired: what was deleted before the
    /// list, and when, is not known.
    ///
    /// `version` is the list's own resourceVersion, or one shortly before. Unlike the greatest of its
    /// items', it is greater than that of every deletion before the list: with it a watch that saw
    /// a cluster elsewhere, and not its deletion, is told to start again.
    pub fn replace(&mut self, all: Vec<MemberCluster>, version: u64) {
        let clusters: Clusters = all
            .into_iter()
            .map(|member| Arc::new(Cluster::from(member)))
            .map(|cluster| (cluster.name().into(), cluster))
            .collect();
        let version = clusters.values().map(|cluster| cluster.version).max().unwrap_or_default().max(version);
        self.known.send_modify(|known| {
            // The greatest one may have been that of a cluster that is gone.
            let (seen, lists) = known.as_ref().map_or((0, 0), |known| (known.version, known.lists));
            let mut next = Snapshot { clusters, lists, ..Snapshot::default() };
            next.begin_at(version.max(seen));
            *known = Some(Arc::new(next));
        });
    }

    /// Takes a cluster that is new or changed.
    pub fn apply(&mut self, one: MemberCluster) {
        let after = Arc::new(Cluster::from(one));
        self.change(after.version, after.name(), Some(&after));
    }

    /// Takes a cluster that is gone, with the resourceVersion of its deletion.
    pub fn delete(&mut self, one: MemberCluster) {
        self.change(resource_version(&one), one.metadata.name.as_deref().unwrap_or_default(), None);
    }

    fn change(&mut self, version: u64, name: &str, after: Option<&Arc<Cluster>>) {
        self.known.send_if_modified(|known| {
            let Some(known) = known else { return false };
            // What is not newer was told before, and so was the end of what is not there.
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
                // The host was restored from a backup: versions begin again, and so do the watches.
                known.begin_at(version);
            }
            true
        });
    }
}

impl Snapshot {
    /// Forgets what was before a version.
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

    /// What changed after a version, the oldest first, if all of that is still known.
    pub(super) fn since(&self, version: u64) -> Option<impl Iterator<Item = &Change>> {
        let seen = self.log.partition_point(|change| change.version <= version);
        (version >= self.floor).then(|| self.log.range(seen..).map(AsRef::as_ref))
    }

    /// The clusters as they were at a version, if what changed after it is still known.
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

/// How many changes are remembered. A thousand members that say every five minutes that they are
/// there make three a second: a watch may lag five minutes behind.
const LOG_LENGTH: usize = 1000;

/// How long a reader that is ahead waits for us (apiserver: `storage/cacher`, `blockTimeout`).
const FRESHNESS_TIMEOUT: Duration = Duration::from_secs(3);

#[cfg(test)]
pub(super) mod fixtures;
#[cfg(test)]
mod tests;
