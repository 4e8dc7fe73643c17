//! The cluster proxy beside a host cluster's kube-apiserver: it learns who a caller is, asks the
//! host whether they may use a member, and forwards the request to the member as that user.
//!
//! [`handler`] is the request's path, read downwards; `docs/explanation/request-path.md` tells it in prose and
//! `docs/explanation/architecture.md` is the map of these modules.

// The program
pub mod app;
pub mod args;
pub mod config;
pub mod crds;
pub mod log;
pub mod shutdown;

// The way in
pub mod admin;
pub mod cors;
pub mod goaway;
pub mod head_limit;
pub mod listener;
pub mod peer;
mod read_hook;
pub mod tls;
pub mod workers;

// The request's path
pub mod handler;
mod query;
pub mod request_info;
mod unescape;

pub mod authentication;
pub mod authorization;
pub mod cutoff;
pub mod deadline;
pub mod identity;
pub mod impersonation;
pub mod limits;
pub mod on_demand_access;
mod retry;
pub mod revalidation;
mod ttl_cache;

// The way to a member
pub mod headers;
pub mod inventory;
pub mod proxy;
pub mod upgrade;
pub mod upstream;

// What is answered here
pub mod clusters;
pub mod discovery;

// What keeps the fleet right
pub mod controllers;

// What is said about it
pub mod audit_id;
pub mod body;
pub mod error;
pub mod metrics;
pub mod panics;
pub mod readiness;
pub mod record;
pub mod status;

#[cfg(test)]
mod fake_host;

pub use error::Error;
