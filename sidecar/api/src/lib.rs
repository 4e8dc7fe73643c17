//! The names, objects and paths that the plugin and the sidecar share. No IO happens here.
//!
//! - [`access`]: who may be impersonated on a member, and why
//! - [`age`]: ages of objects
//! - [`cluster_access`]: the `ClusterAccess` custom resource, a grant that is kept
//! - [`dialect`]: the paths and the lists of other projects' hubs
//! - [`direct`]: the sidecar's own address for clients, and where it is published
//! - [`enrollment`]: the time in which a member's agent may enroll
//! - [`go_duration`]: durations of flags and queries
//! - [`hop`]: the steps of a request, and the header that names the one that answered
//! - [`manifests`]: what an installation consists of
//! - [`name`]: cluster names, parsed once
//! - [`member_cluster`]: the `MemberCluster` custom resource
//! - [`names`]: the names of objects, labels and accounts
//! - [`origin`]: the inventories that members are registered in
//! - [`ownership`]: which requests of a Karmada agent stay with its own cluster
//! - [`path`]: where a member is found below the host's API
//! - [`token_life`]: lifetimes of members' tokens

pub mod access;
pub mod age;
pub mod cluster_access;
pub mod dialect;
pub mod direct;
pub mod enrollment;
pub mod go_duration;
pub mod hop;
pub mod manifests;
pub mod member_cluster;
pub mod name;
pub mod names;
pub mod origin;
pub mod ownership;
pub mod path;
pub mod token_life;

pub use cluster_access::{ClusterAccess, ClusterAccessSpec, ClusterAccessStatus};
pub use hop::Hop;
pub use member_cluster::{MemberCluster, MemberClusterSpec, MemberClusterStatus};
pub use name::{ClusterName, InvalidClusterName};
pub use origin::Origin;
