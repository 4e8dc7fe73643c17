//! The identity and rights of callers: authentication, authorization, impersonation, and stolen tokens.

mod access;
mod anonymous;
mod attacks;
mod authorization;
mod credentials;
mod delegated_flags;
mod forwarded;
mod front_proxy;
mod oidc;
mod revocation;
mod service_accounts;

pub(crate) mod slow {
    pub(crate) mod access_diff;
    pub(crate) mod any_user;
    pub(crate) mod drift;
    pub(crate) mod stolen_impersonator;
    pub(crate) mod stolen_manager;
    pub(crate) mod stolen_sidecar;
}

pub(crate) mod hubs {
    pub(crate) mod cluster_authorization;
    pub(crate) mod cluster_authorization_agent;
    pub(crate) mod cluster_authorization_attacks;
    pub(crate) mod cluster_authorization_enrollment;
    pub(crate) mod cluster_authorization_kept;
    pub(crate) mod cluster_authorization_open_port;
    pub(crate) mod cluster_authorization_policies;
    pub(crate) mod cluster_authorization_register;
    pub(crate) mod cluster_authorization_verbs;
    pub(crate) mod cluster_authorization_verify;
}

pub(crate) mod quiet {
    pub(crate) mod on_demand_access;
    pub(crate) mod unified_auth;
}
