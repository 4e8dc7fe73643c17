//! Registered clusters: join, connection, credential, health, change and removal.

pub(crate) mod agent_join;
pub(crate) mod changes;
mod cluster_access;
mod clusters;
mod connection;
mod enroll;
mod health;
mod join;
pub(crate) mod joined;
mod outage;
mod refusals;
mod tokens;

pub(crate) mod slow {
    pub(crate) mod cluster_access_role;
    pub(crate) mod cluster_profiles;
    pub(crate) mod enroll_lies;
    pub(crate) mod konnectivity;
    pub(crate) mod old_members;
    pub(crate) mod proxy_tls;
    pub(crate) mod recipes;
    pub(crate) mod stolen_token;
}

pub(crate) mod pods {
    pub(crate) mod agent_pods;
}

pub(crate) mod hubs {
    pub(crate) mod karmada;
    pub(crate) mod karmada_agent_writes;
    pub(crate) mod karmada_beside;
    pub(crate) mod karmada_in_place;
    pub(crate) mod karmada_rights;
    pub(crate) mod karmadactl;
    pub(crate) mod kubeadmiral;
}

/// The lock of tests whose members' tokens expire: another test's `join --all-expired` would find
/// these members, too.
const EXPIRED: &str = "expired-tokens";
