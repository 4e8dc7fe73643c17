//! The cluster proxy beside a host cluster's kube-apiserver. It authenticates a caller, asks the host whether
//! the caller may use a member, and forwards the request to the member as that user.
//!
//! [`request::handler`] handles a request from top to bottom; `docs/explanation/request-path.md` describes it
//! in prose, and `docs/explanation/architecture.md` maps these modules. Imports go in one direction: see
//! `layers.rs`.

// The programs
pub mod agent;
pub mod app;
pub mod args;
pub mod check;
pub mod config;
pub mod log;
pub mod log_level;

// Accepting a request, handling it, and the connection to a member
pub mod audit;
pub mod hub_server;
pub mod identity;
pub mod request;
pub mod server;
pub mod spans;
pub mod tunnel;
pub mod upstream;

// The members, and the controllers of the fleet
pub mod controllers;
pub mod members;

// Endpoints that the sidecar answers itself
pub mod endpoints;

// Shared by all of them
mod causes;
mod counted_io;
pub mod host_client;
mod io_hook;
mod json_values;
mod last_words;
mod locked;
pub mod metrics;
pub mod panics;
mod random;
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
