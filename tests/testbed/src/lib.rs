//! A real Kubernetes for the tests: a host cluster, member clusters and nodes, made of upstream's own
//! programs, up in seconds and taken down whatever happens.
//!
//! - [`bed`]: what a test sees: [`Bed`], [`Cluster`], [`Sidecar`]
//! - [`plan`]: what is to be started, from the command line's words
//! - [`start`]: starting it: [`network`], [`control_plane`], [`node`], [`karmada`], [`registration`]
//! - [`owner`]: who answers for a bed, and [`teardown`] when that one is gone
//! - [`programs`], [`images`]: what is built once and kept; [`packages`], [`limits`]: what the machine must have
//! - [`process`], [`certificates`], [`kubectl`], [`probe`], [`wait`], [`progress`]: the tools of all these

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
