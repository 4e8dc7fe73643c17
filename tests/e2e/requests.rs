//! Requests and answers pass through the host and the sidecar as promised: paths, HTTP, TLS,
//! headers and timeouts.

mod audit;
mod audit_events;
mod audit_id;
mod deadlines;
mod debug;
mod discovery;
mod http2;
mod member_headers;
mod messages;
mod pool;
mod redirects;
mod routing;
mod targets;
mod tls;
mod traces;
mod verbs;

pub(crate) mod slow {
    pub(crate) mod clients;
    pub(crate) mod prometheus;
}
