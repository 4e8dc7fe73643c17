//! One tunnel of an agent. It counts its connections, because it has room for a limited number of streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::SendRequest;
use jiff::Timestamp;
use kubectl_mc_api::ClusterName;
use tokio_util::sync::CancellationToken;

use super::protocol::MAX_STREAMS;
use super::unread::Unread;

/// The agent's description in its request for a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentInfo {
    pub version: Arc<str>,
    /// One run of the agent's program.
    pub instance: Arc<str>,
}

/// One tunnel.
#[derive(Debug)]
pub struct AgentTunnel {
    pub cluster: ClusterName,
    pub agent: AgentInfo,
    pub since: Timestamp,
    pub(super) sender: SendRequest<Bytes>,
    pub(super) streams: AtomicUsize,
    pub(super) unread: Arc<Unread>,
    /// Whether the agent has not answered anything yet, or has not answered a ping in time.
    pub(crate) is_late: AtomicBool,
    /// Whether one of the two ends is shutting down.
    pub(super) is_leaving: AtomicBool,
    /// Cancels the tunnel.
    pub(crate) end: CancellationToken,
}

impl AgentTunnel {
    /// Whether one of the two ends is shutting down, so that connections should not be pooled.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed) || self.refuses_streams()
    }

    /// Whether its connections break, or have broken.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_cancelled() || self.refuses_streams()
    }

    /// h2 refuses new streams once the agent has sent GOAWAY, or the connection has broken.
    fn refuses_streams(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        matches!(self.sender.clone().poll_ready(&mut cx), Poll::Ready(Err(_)))
    }

    /// For requests about the tunnel itself.
    pub(crate) fn sender(&self) -> SendRequest<Bytes> {
        self.sender.clone()
    }

    /// Reserves room for one more connection.
    pub(super) fn place(self: &Arc<Self>) -> Option<Place> {
        let most = self.sender.current_max_send_streams().min(MAX_STREAMS as usize);
        let taken = Place(self.clone());
        (self.streams.fetch_add(1, Ordering::Relaxed) < most).then_some(taken)
    }
}

/// A connection's slot in its tunnel.
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
