//! Fuzz targets for all code that reads what clients, the host or members can send. Each module is one
//! target: `run` accepts any input, and fails if the sidecar and the target's own oracle disagree.
//! The oracle implements the same rules independently of the code.
//!
//! Inputs are text as far as possible, so that the files of `corpus/` can be read and edited. `tests/fuzz.sh`
//! runs the targets.

pub mod certificate_request;
pub mod configuration;
pub mod dialect;
pub mod fleet_body;
pub mod headers;
mod lines;
pub mod proxy_path;
pub mod request_header;
pub mod reviews;
pub mod upgrade;
pub mod web_socket;
