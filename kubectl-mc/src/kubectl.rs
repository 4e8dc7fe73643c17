//! kubectl, run on one member by way of the host.
//!
//! - [`verb`]: what a command does to a cluster
//! - [`overlay`]: the kubeconfig that leads kubectl to the member
//! - [`preflight`]: one request that shows which hop refuses, when kubectl would hide it
//! - [`rewrite`]: the command line as one run of kubectl
//! - [`self_review`]: whether the host lets `auth can-i` and `auth whoami` through
//! - [`exec`]: finds and runs kubectl

pub(crate) mod exec;
pub(crate) mod overlay;
pub(crate) mod preflight;
pub(crate) mod rewrite;
pub(crate) mod self_review;
pub(crate) mod verb;
