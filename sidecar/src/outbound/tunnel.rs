//! The reverse tunnel to a member that the host cannot reach. The member's agent dials a sidecar with a
//! WebSocket that carries HTTP/2 with reversed roles (the sidecar is the client). Each connection to the
//! member is a CONNECT stream in it (RFC 9113, 8.5) with the same TLS as a direct connection, so the agent
//! sees only ciphertext.
//!
//! HTTP/2 gives each connection its own flow control, half-closes and resets. The window of the whole tunnel
//! is the sum of its streams' windows, so that no stream can use up another's.
//!
//! [`registry`] holds the open tunnels by cluster. This is soft state: an agent restores it when it
//! dials again.

pub mod accounts;
pub(crate) mod agent_tunnel;
pub mod enrollment;
pub(crate) mod frame_limit;
pub(crate) mod keep_alive;
pub(crate) mod link;
pub mod peers;
pub mod protocol;
pub(crate) mod purpose;
pub mod registry;
pub(crate) mod stream;
pub(crate) mod unread;
pub mod web_socket;
