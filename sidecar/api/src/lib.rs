//! The names, objects and paths that the plugin and the sidecar share. No IO happens here.
//!
//! - [`access`]: the subjects that may be impersonated on a member, and why
//! - [`age`]: ages of objects
//! - [`api_headers`]: the headers that pass between a client and a cluster
//! - [`cluster_access`]: the `ClusterAccess` custom resource, a grant that the leader maintains
//! - [`dialect`]: the paths and the lists of other projects' hubs
//! - [`direct`]: the sidecar's own address for clients, and the ConfigMap that publishes it
//! - [`enrollment`]: the deadline until which a member's agent may enroll
//! - [`environment_proxy`]: the proxy that the environment sets for a server
//! - [`go_duration`]: durations of flags and queries
//! - [`hop`]: the steps of a request, and the header that names the one that responded
//! - [`manifests`]: the objects of an installation
//! - [`name`]: validated cluster names
//! - [`member_cluster`]: the `MemberCluster` custom resource
//! - [`names`]: the names of objects, labels and accounts
//! - [`origin`]: the inventories in which members are registered
//! - [`ownership`]: the decision whether a request of a Karmada agent is about its own cluster
//! - [`path`]: the paths of members below the host's API
//! - [`registration`]: the record of a `MemberCluster` on its Secret
//! - [`token_life`]: lifetimes of members' tokens

pub mod access;
pub mod age;
pub mod api_headers;
pub mod cluster_access;
pub mod dialect;
pub mod direct;
pub mod enrollment;
pub mod environment_proxy;
pub mod go_duration;
pub mod hop;
pub mod manifests;
pub mod member_cluster;
pub mod name;
pub mod names;
pub mod origin;
pub mod ownership;
pub mod path;
pub mod registration;
pub mod token_life;

pub use cluster_access::{ClusterAccess, ClusterAccessSpec, ClusterAccessStatus};
pub use hop::Hop;
pub use member_cluster::{MemberCluster, MemberClusterSpec, MemberClusterStatus, SEEN_INTERVAL};
pub use name::{ClusterName, InvalidClusterName, is_label, is_subdomain};
pub use origin::Origin;
pub use registration::Registration;
