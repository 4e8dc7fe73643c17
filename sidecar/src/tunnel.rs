//! The reverse tunnel to a member that the host cannot reach. The member's agent dials a sidecar, by a WebSocket
//! whose bytes are HTTP/2 with the roles reversed (the sidecar is its client); each connection to the member is a
//! CONNECT stream in it (RFC 9113, 8.5), and carries the same TLS as a direct connection. The agent sees ciphertext.
//!
//! HTTP/2 gives each connection its own flow control, half-closes and resets. The window of the whole tunnel is the
//! sum of the windows of its streams, so that no stream can use up another's.
//!
//! [`registry`] has the open tunnels, by cluster: soft state that an agent restores by dialing again.

use std::time::Duration;

use http::HeaderName;

pub mod accounts;
pub mod enrollment;
pub(crate) mod frame_limit;
pub(crate) mod keep_alive;
pub(crate) mod link;
pub mod peers;
pub mod registry;
pub(crate) mod stream;
pub mod web_socket;

/// The WebSocket subprotocol, whose version changes only with the format of what is inside.
pub const PROTOCOL: &str = "v1.tunnel.kubectl-mc.dev";
/// What an agent says of itself: `0.9.0; instance=<id>; held=<replica>,<replica>`.
pub const AGENT_HEADER: HeaderName = HeaderName::from_static("kubectl-mc-agent");
/// The replica that was asked for a tunnel, and how many replicas there are if it knows: `<replica>; of=3`.
pub const REPLICA_HEADER: HeaderName = HeaderName::from_static("kubectl-mc-replica");
/// Why an agent could not dial its target, beside a 502.
pub const DIAL_HEADER: HeaderName = HeaderName::from_static("kubectl-mc-dial");

/// Requests within the tunnel that are about the tunnel.
pub mod paths {
    /// GET: the agent's version and what it can do.
    pub const ABOUT: &str = "/v1/about";
    /// PUT: a new token for the agent's login to the host.
    pub const CREDENTIAL: &str = "/v1/credential";
    /// PUT: the direct endpoint with its CA, for agents that dial it.
    pub const ENDPOINT: &str = "/v1/endpoint";
    /// GET: the member's CA and tokens of the sidecar's accounts there, while the agent enrolls. DELETE: the host has them, and
    /// the agent deletes its right to hand them over.
    pub const ENROLL: &str = "/v1/enroll";
    /// POST: the replica shuts down; the agent dials another one and leaves.
    pub const DRAIN: &str = "/v1/drain";
}

/// Connections to the member in one tunnel at most. Each watch is one: a member speaks HTTP/1.1 with us.
pub const MAX_STREAMS: u32 = 512;
/// How much of one connection may be on its way unread, in one direction: 10 MB/s at a round trip of 50 ms.
pub const STREAM_WINDOW: u32 = 512 * 1024;
/// The largest header list of a request within the tunnel.
pub(crate) const MAX_HEADER_LIST: u32 = 16 * 1024;
/// What was written to one connection and not sent.
pub(crate) const MAX_SEND_BUFFER: usize = 64 * 1024;
/// How long a handshake of either kind may take.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
