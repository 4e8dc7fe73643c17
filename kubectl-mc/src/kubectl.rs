//! Runs kubectl on one member through the host.
//!
//! - [`verb`]: the effect of a command on a cluster
//! - [`overlay`]: the kubeconfig that directs kubectl to the member
//! - [`preflight`]: one request that shows which hop refuses, if kubectl would hide it
//! - [`rewrite`]: the command line for one run of kubectl
//! - [`kuberc`]: the user's aliases, and defaults that do not apply
//! - [`self_review`]: the path of `auth can-i` and `auth whoami` through the host
//! - [`loopback`]: serves kubectl on this machine, with a certificate and a token of one command
//! - [`exec`]: finds and runs kubectl

pub(crate) mod exec;
pub(crate) mod kuberc;
pub(crate) mod loopback;
pub(crate) mod overlay;
pub(crate) mod preflight;
pub(crate) mod rewrite;
pub(crate) mod self_review;
pub(crate) mod verb;
