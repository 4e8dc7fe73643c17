//! Upgraded connections work: exec, attach, copy, port-forward, and raw tunnels.

mod attach;
mod copy;
mod exec;
mod idle;
pub(crate) mod port_forward;
pub(crate) mod protocol;
mod refused;
mod streams;
mod tunnels;

pub(crate) mod slow {
    pub(crate) mod konnectivity;
}
