//! The identity and rights of callers: authentication, authorization, impersonation, and stolen tokens.

mod access;
mod access_diff;
mod anonymous;
mod any_user;
mod attacks;
mod authorization;
mod cluster_authorization;
mod cluster_authorization_agent;
mod cluster_authorization_attacks;
mod cluster_authorization_enrollment;
mod cluster_authorization_kept;
mod cluster_authorization_open_port;
mod cluster_authorization_policies;
mod cluster_authorization_register;
mod cluster_authorization_verbs;
mod credentials;
mod delegated_flags;
mod drift;
mod forwarded;
mod front_proxy;
mod oidc;
mod on_demand_access;
mod revocation;
mod stolen_impersonator;
mod stolen_manager;
mod stolen_sidecar;
pub(crate) mod unified_auth;
