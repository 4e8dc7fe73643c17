//! The cluster proxy beside a host cluster's kube-apiserver: it learns who a caller is, asks the
//! host whether they may use a member, and forwards the request to the member as that user.
//!
//! [`request::handler`] is the request's path, read downwards; `docs/explanation/request-path.md` tells it in prose
//! and `docs/explanation/architecture.md` is the map of these modules. Imports point one way: see `layers.rs`.

// The programs
pub mod agent;
pub mod app;
pub mod args;
pub mod check;
pub mod config;
pub mod log;
pub mod log_level;

// The way in, the request's path, the way to a member
pub mod audit;
pub mod hub_server;
pub mod identity;
pub mod request;
pub mod server;
pub mod spans;
pub mod tunnel;
pub mod upstream;

// The members, and what keeps the fleet right
pub mod controllers;
pub mod members;

// What is answered here
pub mod endpoints;

// What all of them use
mod causes;
mod counted_io;
pub mod host_client;
mod last_words;
pub mod metrics;
pub mod panics;
mod random;
mod read_hook;
pub mod readiness;
mod retry;
mod tcp;
mod token;
mod ttl_cache;
mod watch_backoff;
pub mod workers;

#[cfg(test)]
mod fake_host;
#[cfg(test)]
mod layers;

pub use request::error::Error;
