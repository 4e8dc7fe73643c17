//! Starts a real Kubernetes for the tests: a host cluster, member clusters and nodes, made of upstream's own
//! programs. It starts in seconds and is always taken down, whatever happens.
//!
//! - [`bed`]: the running bed from the tests' point of view: [`Bed`], [`Cluster`], [`Sidecar`]
//! - [`plan`]: what to start, according to the command line's arguments
//! - [`start`]: starts it: [`network`], [`control_plane`], [`node`], [`karmada`], [`registration`]
//! - [`owner`]: the process that owns a bed, and [`teardown`] once that process is gone
//! - [`programs`], [`images`]: built once and kept; [`packages`], [`limits`]: requirements of the machine
//! - [`process`], [`certificates`], [`kubectl`], [`probe`], [`wait`], [`progress`]: tools of all these

pub mod bed;
pub mod certificates;
mod control_plane;
pub mod images;
mod karmada;
mod kubeconfig;
mod kubectl;
mod limits;
mod network;
mod node;
pub mod owner;
mod packages;
pub mod plan;
mod probe;
mod process;
pub mod programs;
mod progress;
mod registration;
pub mod start;
pub mod teardown;
mod wait;

pub use bed::{Bed, Cluster, Karmada, Sidecar};
pub use certificates::ClientCertificate;
