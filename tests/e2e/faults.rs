//! Failures of the host, of members and of the sidecar, and recovery from them.

mod host;
mod known_outage;
mod member_answers;
mod member_reach;
mod member_refusals;
mod priority_levels;
mod process;
mod shutdown;
mod slow_members;

pub(crate) mod slow {
    pub(crate) mod lost_registry;
}

pub(crate) mod quiet {
    pub(crate) mod killed_pods;
    pub(crate) mod leadership;
    pub(crate) mod vanished;
}
