//! Members whose agents dial the host: what passes through the tunnel, who may open one, and what ends it.

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
