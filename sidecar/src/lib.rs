//! The cluster proxy beside a host cluster's kube-apiserver. It authenticates a caller, asks the host whether
//! the caller may use a member, and forwards the request to the member as that user.
//!
//! Each folder is a layer: a module imports only from its own layer and from those above it in this file
//! (`layers.rs` checks it). [`request::handler`] handles a request from top to bottom;
//! `docs/explanation/request-path.md` describes it in prose, and `docs/explanation/architecture.md` maps these
//! modules.

/// Knows nothing of Kubernetes.
mod base {
    pub(crate) mod causes;
    pub(crate) mod counted_io;
    pub(crate) mod io_hook;
    pub(crate) mod json_values;
    pub(crate) mod last_words;
    pub(crate) mod locked;
    pub(crate) mod random;
    pub(crate) mod retry;
    pub(crate) mod tcp;
    pub(crate) mod ttl_cache;
    pub mod workers;
}

/// Log level, metrics, panics and readiness of the process.
pub mod observe {
    pub mod log_level;
    pub mod metrics;
    pub mod panics;
    pub mod readiness;
}

/// The client of the host's kube-apiserver.
pub mod host {
    pub mod client;
    #[cfg(test)]
    pub mod fake;
    pub mod token;
    pub mod watch_backoff;
}

/// Parses the head of a request.
pub mod head {
    pub mod audit_id;
    pub mod deadline;
    pub mod field_selector;
    pub mod headers;
    pub mod offer;
    pub mod protocol;
    pub mod query;
    pub mod request_info;
    pub mod unescape;
}

/// Limits the part of shared resources that one caller or one cluster can use.
pub mod limits {
    pub mod cutoff;
    pub mod in_flight;
    pub mod upload;
}

/// Limits and TLS of a connection before its caller is authenticated.
pub mod connection {
    pub mod goaway;
    pub mod head_limit;
    pub mod places;
    pub mod tls;
}

pub mod identity;

/// Records audit events, traces and metrics of each request.
pub mod telemetry {
    pub mod audit;
    pub mod requests;
    pub mod spans;
}

/// The way to a member.
pub mod outbound {
    pub mod body;
    pub mod tunnel;
    pub mod upstream;
}

/// Answers of the sidecar itself, without a member.
pub mod endpoints {
    pub mod admission;
    pub mod authorize;
    pub mod clusters;
    pub mod discovery;
    pub mod hub_server;
}

/// The registered members, and grants of on-demand access to members that do not know a user yet.
pub mod members {
    pub mod cluster;
    pub mod inventory;
    pub mod on_demand_access;
    pub mod waiter_limit;
}

/// The fleet view: what its requests and members' answers hold, and how they are renamed and merged.
pub mod fleet {
    pub mod bodies;
    pub mod cells;
    pub mod documents;
    pub mod items;
    mod protobuf;
    pub mod renamed;
    pub mod renamer;
    pub mod shares;
    pub mod vector;
}

/// The path of one request: [`request::handler`] finds its user and whether the host allows it, bounds its duration,
/// forwards it to the member, and records and reports the outcome.
pub mod request {
    pub mod agent_handshake;
    pub mod attach;
    pub mod authorized;
    pub mod cors;
    pub mod debug;
    pub mod error;
    pub mod fleet;
    pub mod flow;
    pub mod guarded;
    pub mod handler;
    pub mod hold;
    pub mod login;
    pub mod proxy;
    pub mod record;
    pub mod redirect;
    pub mod revalidation;
    pub mod services;
    pub mod status;
    pub mod tunnels;
    pub mod upgrade;
}

/// The ports.
pub mod server {
    pub mod admin;
    pub mod listener;
    pub mod shutdown;
    pub mod webhook;
}

pub mod controllers;

/// The programs, and their command lines.
pub mod programs {
    pub mod agent;
    pub mod args;
    pub mod check;
    pub mod config;
    pub mod log;
    pub mod serve;
}

#[cfg(test)]
mod layers;

pub use base::workers;
pub use request::error::Error;
