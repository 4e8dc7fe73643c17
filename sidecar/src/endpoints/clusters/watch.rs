//! Streams the changes of clusters as events, one JSON document a line. The writing task holds only a
//! position in the registry's log and at most two chunks, even if its client does not read.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::error::Error;
use super::form::Form;
use super::object::Cluster;
use super::options::Options;
use super::registry::{Change, Known, Registry, Snapshot};
use super::selector::Selection;
use super::visibility::Viewer;
use crate::base::random;

/// Starts a watch. It ends with its receiver, at its timeout, when its position leaves the log, or with the
/// registry's writer.
pub(super) async fn start(
    registry: &Registry,
    options: Options,
    form: Form,
    viewer: Option<Viewer>,
) -> Result<mpsc::Receiver<Bytes>, Error> {
    let asked = options.version.unwrap_or_default();
    let with_list = options.send_initial_events.unwrap_or(asked == 0);
    // A watch without a list may begin at a version that is not known here yet: it sends nothing
    // until that version arrives.
    let snapshot = if with_list { registry.not_older_than(asked).await? } else { registry.snapshot()? };
    let mut initial = Vec::new();
    if with_list {
        initial
            .extend(snapshot.clusters.values().filter(|cluster| options.selection.matches(cluster)).cloned());
    }
    // One chunk waits for the client while the next one is built.
    let (events, receiver) = mpsc::channel(1);
    let begins_at_present = with_list || asked == 0;
    let watch = Watch {
        known: registry.subscribe(),
        lists: snapshot.lists,
        position: if begins_at_present { snapshot.version } else { asked },
        selection: options.selection,
        viewer,
        chunk: Chunk { form, bytes: Vec::new(), headers: true },
        events,
    };
    let end_of_list = options.bookmarks && options.send_initial_events == Some(true);
    let time = options.timeout.unwrap_or_else(default_timeout).min(LONGEST);
    registry.watches.spawn(async move {
        let _ended = timeout(time, watch.run(initial, end_of_list, options.bookmarks)).await;
    });
    Ok(receiver)
}

struct Watch {
    known: watch::Receiver<Known>,
    /// The list after which the watch began. The watch cannot continue across the next list.
    lists: u64,
    /// The version up to which everything was sent.
    position: u64,
    selection: Selection,
    /// The caller whose rights determine what is shown.
    viewer: Option<Viewer>,
    chunk: Chunk,
    events: mpsc::Sender<Bytes>,
}

/// The watch must stop, because its receiver was dropped.
struct Gone;

impl Watch {
    async fn run(
        mut self,
        initial: Vec<Arc<Cluster>>,
        end_of_list: bool,
        bookmarks: bool,
    ) -> Result<(), Gone> {
        for cluster in initial {
            self.chunk.cluster("ADDED", &cluster);
            if self.chunk.is_full() {
                self.flush().await?;
            }
        }
        if end_of_list {
            self.chunk.bookmark(self.position, true);
        }
        self.flush().await?;
        let mut tick = interval_at(Instant::now() + BOOKMARK_INTERVAL, BOOKMARK_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut recheck = interval_at(Instant::now() + RECHECK_INTERVAL, RECHECK_INTERVAL);
        recheck.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let Some(snapshot) = self.known.borrow_and_update().clone() else {
                return Ok(());
            };
            let told_all = self.follow(&snapshot);
            drop(snapshot);
            let Some(told_all) = told_all else {
                self.chunk.expired();
                return self.flush().await;
            };
            self.flush().await?;
            if !told_all {
                continue;
            }
            // All of these are cancel-safe.
            tokio::select! {
                biased;
                () = self.events.closed() => return Err(Gone),
                changed = self.known.changed() => if changed.is_err() {
                    return Ok(());
                },
                _ = tick.tick(), if bookmarks => {
                    self.chunk.bookmark(self.position, false);
                    self.flush().await?;
                }
                _ = recheck.tick() => if self.sees_others_now().await {
                    self.chunk.expired();
                    return self.flush().await;
                }
            }
        }
    }

    /// Whether the viewer's rights changed. Then the watch ends as expired, and the client lists again, which
    /// shows added and removed clusters.
    async fn sees_others_now(&self) -> bool {
        let Some(viewer) = &self.viewer else { return false };
        let Some(snapshot) = self.known.borrow().clone() else { return false };
        // If the host does not answer, its previous decisions are kept; if this persists, the
        // request's revalidation ends the watch.
        let sees = Box::pin(viewer.sees(self.selection.names(&snapshot))).await;
        sees.is_ok_and(|visible| visible != self.selection.visible.within(&snapshot))
    }

    /// Writes the events after the position, up to one chunk. Returns whether that was all of them, or `None`
    /// if the log does not reach back to the position.
    fn follow(&mut self, snapshot: &Snapshot) -> Option<bool> {
        if snapshot.lists != self.lists {
            return None;
        }
        for change in snapshot.since(self.position)? {
            self.chunk.change(change, &self.selection);
            self.position = change.version;
            if self.chunk.is_full() {
                return Some(false);
            }
        }
        // A watch may begin at a later version than the collection's.
        self.position = self.position.max(snapshot.version);
        Some(true)
    }

    async fn flush(&mut self) -> Result<(), Gone> {
        if self.chunk.bytes.is_empty() {
            return Ok(());
        }
        let chunk = Bytes::from(std::mem::take(&mut self.chunk.bytes));
        self.events.send(chunk).await.map_err(|_| Gone)
    }
}

/// Events that are sent together.
struct Chunk {
    form: Form,
    bytes: Vec<u8>,
    /// Whether the next table must include column definitions: only the first one does.
    headers: bool,
}

impl Chunk {
    /// For this watch, a cluster that starts to match was added, and a cluster that stops to match was
    /// deleted.
    fn change(&mut self, change: &Change, selection: &Selection) {
        let selected =
            |cluster: &Option<Arc<Cluster>>| cluster.clone().filter(|cluster| selection.matches(cluster));
        match (selected(&change.before), selected(&change.after)) {
            (None, Some(after)) => self.cluster("ADDED", &after),
            (Some(_), Some(after)) => self.cluster("MODIFIED", &after),
            (Some(before), None) => self.cluster("DELETED", &before.at(change.version)),
            (None, None) => {}
        }
    }

    fn cluster(&mut self, event: &str, cluster: &Cluster) {
        self.event(event, |chunk| chunk.form.write_one(&mut chunk.bytes, cluster, chunk.headers));
    }

    fn bookmark(&mut self, version: u64, end_of_list: bool) {
        self.event("BOOKMARK", |chunk| {
            chunk.form.write_bookmark(&mut chunk.bytes, version, end_of_list, chunk.headers);
        });
    }

    fn expired(&mut self) {
        self.event("ERROR", |chunk| chunk.bytes.extend_from_slice(EXPIRED.as_bytes()));
    }

    fn event(&mut self, event: &str, write_object: impl FnOnce(&mut Self)) {
        self.bytes.extend_from_slice(format!(r#"{{"type":"{event}","object":"#).as_bytes());
        write_object(self);
        self.bytes.extend_from_slice(b"}\n");
        self.headers = false;
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= CHUNK
    }
}

/// Between half an hour and an hour, so that clients do not reconnect together (apiserver:
/// `MinRequestTimeout`).
fn default_timeout() -> Duration {
    Duration::from_secs(30 * 60).mul_f64(1.0 + random::fraction())
}

/// Sent when the position of a watch is no longer in the log.
const EXPIRED: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"The resourceVersion for the provided watch is too old.","reason":"Expired","code":410}"#;

/// The same interval as the revalidation of the watch itself.
const RECHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The same as in a kube-apiserver.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// Large enough to send a thousand clusters in few frames, and small enough for ten thousand watches.
const CHUNK: usize = 32 * 1024;

/// Longer than any connection lasts, and short enough that adding it to a time cannot overflow.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests;
