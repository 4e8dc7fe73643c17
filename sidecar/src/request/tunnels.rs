//! Keeps the tasks that join connections, which outlive their requests, and counts them.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::observe::metrics::{Labels, own};

/// State that outlives a request: the tasks that join connections.
#[derive(Clone, Debug)]
pub struct Tunnels {
    pub tasks: TaskTracker,
    /// Ends every tunnel, and every long-running request.
    pub stop: CancellationToken,
    pub(super) open: Gauge,
    pub(super) bytes: Bytes,
}

impl Tunnels {
    pub fn new(registry: &mut Registry) -> Self {
        let (open, bytes) = (Gauge::default(), Family::<Labels<1>, Counter>::default());
        let registry = own(registry);
        registry.register("tunnels", "Open upgraded connections", open.clone());
        registry.register("tunnel_bytes", "Bytes in upgraded connections", bytes.clone());
        let [to_member, to_caller] = ["to_member", "to_caller"]
            .map(|direction| bytes.get_or_create_owned(&[("direction", direction)]));
        let bytes = Bytes { to_member, to_caller };
        Self { tasks: TaskTracker::new(), stop: CancellationToken::new(), open, bytes }
    }
}

/// The byte counters of all tunnels.
#[derive(Clone, Debug, Default)]
pub(super) struct Bytes {
    pub(super) to_member: Counter,
    pub(super) to_caller: Counter,
}
