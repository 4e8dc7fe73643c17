//! Helpers that the end-to-end tests share: the running bed, its callers, clients, fake servers and programs.
//! They make no assertions about the product; the tests do.
//!
//! - [`bed`]: the running test bed; [`api`]: its clusters' APIs as their administrator
//! - [`scene`]: one test's own namespace, users and rights
//! - [`caller`]: callers that log in to the host; [`oidc`]: issuers of their ID tokens
//! - [`spare_host`]: a cluster that becomes a host, for one test at a time; [`leftovers`]: removes what a
//!   test left on it
//! - [`tool`]: the plugin and kubectl, run to completion or in the background; [`pty`]: the same on
//!   a terminal, with its screen
//! - [`script`]: executables that the programs run
//! - [`aged_token`]: tokens that were issued long ago
//! - [`asking`]: requests during a change
//! - [`much`]: large outputs of a pod, complete
//! - [`audit`]: a cluster's audit log
//! - [`fake_member`]: a member that misbehaves on demand and records every byte
//! - [`collector`]: spans of all programs of the bed
//! - [`snapshot`]: a program's output as a text that a test compares word for word
//! - [`registration`]: registers members on the host; [`managed`]: a member that the controllers manage
//! - [`http1`], [`http2`]: HTTP exactly as written, for attacks
//! - [`hostile`]: clients that misbehave; [`good_caller`]: a client that behaves well and measures
//! - [`own_sidecar`]: one test's own sidecar, [`own_service`]: its Service on the host; [`usage`]:
//!   the resources of a process
//! - [`own_fleet`]: members that one test's own sidecar manages
//! - [`karmada`]: members of Karmada's inventory
//! - [`own_agent`]: one test's own agent, with its tunnel; [`private_network`]: a network without
//!   inbound connections
//! - [`front_proxy`]: certificates of the host's front proxy, valid and invalid ones
//! - [`connect_proxy`]: a CONNECT proxy that records its requests; [`proxy_authority`]: its certificates;
//!   [`konnectivity`]: a proxy whose agent is at the member
//! - [`oidc`]: issuers of ID tokens; [`openid_provider`]: a real one, and a user who logs in to it
//! - [`prometheus`]: a real one that scrapes sidecars; [`monitoring`]: the alert rules and the dashboard
//! - [`kubeadmiral`]: members of KubeAdmiral's inventory
//! - [`karmada_host`]: a host whose kube-apiserver asks the authorization webhook about Karmada's agents
//! - [`karmada_keeper`]: a sidecar that maintains the RBAC of agents on such a host
//! - [`karmada_own`]: Karmada's own server, definitions and agent on such a host
//! - [`relay`]: a connection that can be cut and restored
//! - [`turn`]: a lock for one test at a time; [`wait`]: waits for a condition; [`noise`]: bytes that reveal a
//!   loss

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
pub mod process_host;
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
mod compiled_files;
#[cfg(test)]
mod doc_links;
#[cfg(test)]
mod faults_table;
#[cfg(test)]
mod file_cycles;
