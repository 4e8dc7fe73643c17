//! Names and limits of the tunnel's protocol, on which both of its ends agree.

use std::time::Duration;

use http::HeaderName;

/// The WebSocket subprotocol. Its version changes only with the format of its content.
pub const PROTOCOL: &str = "v1.tunnel.kubectl-mc.dev";
/// The agent's description of itself: `0.9.0; instance=<id>; held=<replica>,<replica>`.
pub const AGENT_HEADER: HeaderName = HeaderName::from_static("kubectl-mc-agent");
/// The replica that answered, and the number of replicas if it is known: `<replica>; of=3`.
pub const REPLICA_HEADER: HeaderName = HeaderName::from_static("kubectl-mc-replica");
/// Why an agent could not dial its target, sent with a 502.
pub const DIAL_HEADER: HeaderName = HeaderName::from_static("kubectl-mc-dial");

/// Paths of requests about the tunnel itself.
pub mod paths {
    /// GET: the agent's version and capabilities.
    pub const ABOUT: &str = "/v1/about";
    /// PUT: a new token for the agent's login to the host.
    pub const CREDENTIAL: &str = "/v1/credential";
    /// PUT: the direct endpoint with its CA, for agents that dial it.
    pub const ENDPOINT: &str = "/v1/endpoint";
    /// GET: the member's CA and tokens of the sidecar's accounts there, during the enrollment. DELETE: the
    /// host has stored them, and the agent deletes its right to send them.
    pub const ENROLL: &str = "/v1/enroll";
    /// POST: the replica shuts down; the agent dials another one and leaves.
    pub const DRAIN: &str = "/v1/drain";
}

/// Maximum number of connections to the member in one tunnel. Each watch is one, because the sidecar uses
/// HTTP/1.1 to a member.
pub const MAX_STREAMS: u32 = 512;
/// How much of one connection may be in transit unread, in one direction: 10 MB/s at a round trip of 50 ms.
pub const STREAM_WINDOW: u32 = 512 * 1024;
/// The largest header list of a request within the tunnel.
pub(crate) const MAX_HEADER_LIST: u32 = 16 * 1024;
/// The largest HTTP/2 frame. With its head and that of a WebSocket frame it fills two TLS records.
pub(crate) const MAX_FRAME: usize = 2 * 16 * 1024 - 9 - MAX_HEAD;
/// Maximum number of bytes that are flushed to one connection and not yet sent. The same number may
/// wait to be flushed.
pub(crate) const MAX_SEND_BUFFER: usize = MAX_FRAME;
/// h2 closes a tunnel in which small frames with this overhead are unread: 32,000 of them, 8 MiB.
/// `unread` merges them before there are a few thousand. Late frames of streams that were reset
/// also count, until large frames make up for them.
pub(crate) const SMALL_FRAMES_BUDGET: usize = 8 * 1024 * 1024;
/// How long an agent tries to connect to its target.
pub(crate) const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of either handshake.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest head of a frame.
pub(super) const MAX_HEAD: usize = 14;
