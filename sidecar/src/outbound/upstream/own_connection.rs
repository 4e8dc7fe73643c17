//! The connection of one request, which is not pooled: an upgrade's.

use std::sync::Arc;

use socket2::Socket;
use tokio_util::task::AbortOnDropHandle;

use crate::base::tcp;
use crate::limits::in_flight::Caller;
use crate::outbound::tunnel::stream::directions::Directions;

/// A connection of one request, driven by its own task. Dropping it closes the connection.
#[derive(Debug)]
pub struct OwnConnection {
    _task: AbortOnDropHandle<()>,
    /// Its TCP socket, until the protocol is switched.
    socket: Option<Socket>,
    /// The stream of an agent's tunnel that carries it.
    stream: Option<Arc<Directions>>,
}

impl OwnConnection {
    pub(super) fn new(
        task: AbortOnDropHandle<()>,
        socket: Option<Socket>,
        stream: Option<Arc<Directions>>,
    ) -> Self {
        Self { _task: task, socket, stream }
    }

    /// From now on, the connection carries another protocol for the caller. The member may pause
    /// reading for as long as it wants, which TCP_USER_TIMEOUT cannot distinguish from a dead
    /// member (tcp(7)); the kernel's own retries detect a dead one.
    pub fn switched(&mut self, caller: Caller) {
        if let Some(socket) = self.socket.take() {
            let _ = tcp::let_pause(&socket);
        }
        if let Some(stream) = &self.stream {
            stream.serves(caller);
        }
    }
}
