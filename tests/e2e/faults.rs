//! Failures of the host, of members and of the sidecar, and recovery from them.

mod host;
mod killed_pods;
mod known_outage;
mod leadership;
mod lost_registry;
mod member_answers;
mod member_reach;
mod member_refusals;
mod priority_levels;
mod process;
mod shutdown;
mod slow_members;
mod vanished;
