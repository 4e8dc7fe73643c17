//! Members whose agents dial the host: requests through the tunnel, the right to open a tunnel, and
//! the events that close it.

mod attach;
mod credential;
pub(crate) mod ends;
mod peers;
mod traffic;

pub(crate) mod slow {
    pub(crate) mod private;
    pub(crate) mod replicas;
    pub(crate) mod rollout;
}

pub(crate) mod quiet {
    pub(crate) mod restart;
    pub(crate) mod vanished;
}
