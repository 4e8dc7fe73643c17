//! The headers that the sidecar and the plugin's local listener forward between a client of the
//! Kubernetes API and a cluster. Any other header is dropped. Names are in lower case, as in
//! HTTP/2.

/// Whether the Kubernetes API and its clients use the header in requests.
pub fn is_of_requests(name: &str) -> bool {
    matches!(
        name,
        "accept"
            | "accept-encoding"
            | "accept-language"
            | "audit-id"
            | "cache-control"
            | "content-encoding"
            | "content-language"
            | "content-type"
            | "kubectl-command"
            | "kubectl-session"
            | "pragma"
            | "range"
            | "traceparent"
            | "tracestate"
            | "user-agent"
            | STREAM_PROTOCOL
    ) || ["if-", WEB_SOCKET, "x-kubernetes-"].iter().any(|prefix| name.starts_with(prefix))
}

/// Whether the header of a response belongs to the Kubernetes API, to caching or to ranges of HTTP. `Location` does
/// not, because a cluster's path is another one on the host and on the listener.
pub fn is_of_responses(name: &str) -> bool {
    matches!(
        name,
        "accept-patch"
            | "accept-ranges"
            | "age"
            | "allow"
            | "audit-id"
            | "cache-control"
            | "content-digest"
            | "content-disposition"
            | "content-encoding"
            | "content-language"
            | "content-length"
            | "content-range"
            | "content-type"
            | "date"
            | "deprecation"
            | "etag"
            | "expires"
            | "last-modified"
            | "pragma"
            | "retry-after"
            | "sunset"
            | "vary"
            | "warning"
            | "x-accepted-stream-protocol-versions"
    ) || name.starts_with("x-kubernetes-pf-")
}

/// Whether the header of a 101 is about the protocol that the connection switches to.
pub fn is_of_a_switch(name: &str) -> bool {
    name.starts_with(WEB_SOCKET) || name == STREAM_PROTOCOL
}

const WEB_SOCKET: &str = "sec-websocket-";
/// apimachinery: `util/httpstream.HeaderProtocolVersion`
const STREAM_PROTOCOL: &str = "x-stream-protocol-version";
