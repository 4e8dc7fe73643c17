//! Registered clusters: join, connection, credential, health, change and removal.

pub(crate) mod agent_join;
mod agent_pods;
pub(crate) mod changes;
mod cluster_access;
mod cluster_access_role;
mod cluster_profiles;
mod clusters;
mod connection;
mod enroll;
mod enroll_lies;
mod health;
mod join;
pub(crate) mod joined;
mod karmada;
mod karmada_agent_writes;
mod karmada_beside;
mod karmada_in_place;
mod karmada_rights;
mod karmadactl;
mod konnectivity;
mod kubeadmiral;
mod old_members;
mod outage;
mod proxy_tls;
mod recipes;
mod refusals;
mod stolen_token;
mod tokens;

/// The lock of tests whose members' tokens expire: `join --all-expired` of another test would find them, too.
const EXPIRED: &str = "expired-tokens";
