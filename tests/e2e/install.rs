//! Installation of the sidecar as pods, on each platform, and its removal.

mod authority;
mod cert_manager;
mod check;
mod cluster_authorization;
mod direct_endpoint;
mod fleet;
mod helm;
pub(crate) mod in_pods;
mod karmada;
mod platforms;
mod quickstart;
mod removal;
mod run_on;
mod versions;
