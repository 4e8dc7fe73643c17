//! Long-running requests whose client or member reads nothing: `kubectl logs | less`, a watch of a stopped
//! program, a command that does not read its input. This is not an error, but each of them holds
//! buffers in the sidecar and in the kernel. They continue while these stay within the share of
//! their caller and of their cluster, and within the limit of the replica. Otherwise requests of
//! the largest holder end, the longest paused first.

use std::sync::Arc;
use std::time::Duration;

use kubectl_mc_api::ClusterName;
use tracing::debug;

use super::Cutoff;
use crate::limits::in_flight::Caller;
use crate::limits::in_flight::largest::{Bounds, Part};

/// The caller and the cluster whose shares a request uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Holder {
    pub(super) caller: Option<Caller>,
    pub(super) cluster: Option<ClusterName>,
}

/// The paused requests that one sweep has found.
#[derive(Debug, Default)]
pub(super) struct Paused(Vec<(Arc<Cutoff>, Holder, Duration)>);

impl Paused {
    /// Counts a request if it has been paused for long enough.
    pub(super) fn add(&mut self, cutoff: &Arc<Cutoff>, holder: &Holder, paused: Option<Duration>) {
        if let Some(paused) = paused.filter(|paused| *paused >= PAUSED_AFTER) {
            self.0.push((cutoff.clone(), holder.clone(), paused));
        }
    }

    /// Cuts off the requests that exceed the bounds.
    pub(super) fn cut_surplus(&self) {
        let parts = self.0.iter().map(|(_, Holder { caller, cluster }, paused)| {
            let stalled = u64::try_from(paused.as_millis()).ok();
            Part { caller: *caller, cluster: cluster.as_ref(), size: HELD, stalled }
        });
        let parts: Vec<_> = parts.collect();
        let surplus = BOUNDS.surplus(&parts);
        for at in &surplus {
            self.0[*at].0.cut();
        }
        if !surplus.is_empty() {
            debug!(paused = parts.len(), cut = surplus.len(), "too many long-running requests are paused");
        }
    }
}

/// A quarter of a replica's memory, by the limit of its deployment: 512 paused requests, 384 of one caller or
/// of one cluster.
const BOUNDS: Bounds = Bounds::shared(256 * 1024 * 1024);
/// The memory that a paused request holds: 64 KiB on either side in the sidecar, and the kernel's
/// buffers for both connections. Memory in an agent's tunnel is counted there.
const HELD: usize = 512 * 1024;
/// Even a slow reader reads 16 KiB in less time.
const PAUSED_AFTER: Duration = Duration::from_secs(5);
