//! Counts the connections of a tunnel, which has room for a limited number of streams.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::AgentTunnel;
use crate::outbound::tunnel::protocol::MAX_STREAMS;

impl AgentTunnel {
    /// Reserves room for one more connection.
    pub(super) fn place(self: &Arc<Self>) -> Option<Place> {
        let most = self.sender.current_max_send_streams().min(MAX_STREAMS as usize);
        let taken = Place(self.clone());
        (self.streams.fetch_add(1, Ordering::Relaxed) < most).then_some(taken)
    }
}

/// A connection's place in its tunnel.
#[derive(Debug)]
pub(crate) struct Place(Arc<AgentTunnel>);

impl Place {
    pub(crate) fn tunnel(&self) -> &Arc<AgentTunnel> {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}
