//! What the end-to-end tests share: the bed they run in and everything they hold in
//! their hands there. Nothing here judges; the tests do.
//!
//! - [`bed`]: the running test bed; [`api`]: its clusters' APIs as their administrator
//! - [`scene`]: one test's own namespace, users and rights
//! - [`caller`]: people and programs that log in to the host; [`oidc`]: who vouches for people elsewhere
//! - [`spare_host`]: a cluster that becomes a host, for one test at a time; [`leftovers`]: what a test has left on one
//! - [`tool`]: the plugin and kubectl, run to their end or in the background; [`pty`]: on a terminal, with its screen
//! - [`script`]: executables that the programs run
//! - [`aged_token`]: tokens that were issued long ago
//! - [`asking`]: requests all the while something changes
//! - [`much`]: large outputs of a pod, whole
//! - [`audit`]: what a cluster's audit log says
//! - [`fake_member`]: a member that misbehaves on demand and remembers every byte
//! - [`collector`]: spans of all programs of the bed
//! - [`snapshot`]: what a program says, as a text that a test keeps word for word
//! - [`registration`]: members that the host is told of; [`managed`]: one that the controllers look after
//! - [`http1`], [`http2`]: HTTP exactly as written, for attacks
//! - [`hostile`]: clients that do not play along; [`good_caller`]: one that does, and measures
//! - [`own_sidecar`]: a sidecar of one test's own, [`own_service`]: the host's Service of one; [`usage`]: what a process costs
//! - [`own_fleet`]: members that a sidecar of one test's own looks after
//! - [`karmada`]: members of Karmada's inventory
//! - [`own_agent`]: an agent of one test's own, with its tunnel; [`private_network`]: a network that lets nothing in
//! - [`front_proxy`]: certificates of the host's front proxy, true and false ones
//! - [`connect_proxy`]: a CONNECT proxy that remembers what it was asked for; [`proxy_authority`]: certificates of its
//!   own; [`konnectivity`]: a proxy whose agent is at the member
//! - [`oidc`]: issuers of ID tokens; [`openid_provider`]: a real one, and a person who logs in to it
//! - [`prometheus`]: a real one that scrapes sidecars; [`monitoring`]: the alert rules and the dashboard
//! - [`kubeadmiral`]: members of KubeAdmiral's inventory
//! - [`karmada_host`]: a host whose kube-apiserver asks the authorization webhook about the agents of Karmada
//! - [`karmada_keeper`]: a sidecar that keeps the RBAC of agents on such a host
//! - [`karmada_own`]: Karmada's own server, definitions and agent on such a host
//! - [`relay`]: a way that can be cut and mended
//! - [`turn`]: one test at a time; [`wait`]: until something is so; [`noise`]: bytes that tell when one is lost

pub mod aged_token;
pub mod api;
pub mod asking;
pub mod audit;
pub mod bed;
pub mod black_hole;
pub mod both_sides;
pub mod caller;
pub mod collector;
pub mod connect_proxy;
pub mod fake_member;
pub mod front_proxy;
pub mod good_caller;
pub mod hostile;
pub mod http1;
pub mod http2;
pub mod karmada;
pub mod karmada_host;
pub mod karmada_keeper;
pub mod karmada_own;
pub mod konnectivity;
pub mod kubeadmiral;
pub mod leftovers;
pub mod managed;
pub mod monitoring;
pub mod much;
pub mod noise;
pub mod oidc;
pub mod openid_provider;
pub mod own_agent;
pub mod own_fleet;
pub mod own_service;
pub mod own_sidecar;
pub mod peer;
pub mod plain_requests;
pub mod private_network;
pub mod prometheus;
pub mod proxy_authority;
pub mod pty;
pub mod registration;
pub mod relay;
pub mod scene;
pub mod script;
pub mod snapshot;
pub mod spare_host;
pub mod tool;
pub mod turn;
pub mod usage;
pub mod vanishing;
pub mod wait;

#[cfg(test)]
mod doc_links;
#[cfg(test)]
mod faults_table;
