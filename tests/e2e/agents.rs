//! Members whose agents dial the host: requests through the tunnel, the right to open one, and the events
//! that close it.

mod attach;
mod credential;
pub(crate) mod ends;
mod peers;
mod private;
mod replicas;
mod restart;
mod rollout;
mod traffic;
mod vanished;
