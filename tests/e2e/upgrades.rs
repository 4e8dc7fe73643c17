//! Upgraded connections work: exec, attach, copy, port-forward, and raw tunnels.

mod attach;
mod copy;
mod exec;
mod konnectivity;
pub(crate) mod port_forward;
pub(crate) mod protocol;
mod quiet;
mod refused;
mod streams;
mod tunnels;
