//! What is fuzzed: everything that reads what strangers, the host or members can send. Each module is
//! one target: `run` takes any input and fails when the sidecar and the target's own oracle, which is
//! a port of the rules and not of the code, do not agree.
//!
//! Inputs are text as far as they can be, so that what is kept in `corpus/` can be read and edited.
//! `tests/fuzz.sh` runs the targets.

pub mod certificate_request;
pub mod configuration;
pub mod dialect;
pub mod headers;
mod lines;
pub mod proxy_path;
pub mod request_header;
pub mod reviews;
pub mod upgrade;
pub mod web_socket;
