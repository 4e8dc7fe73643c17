//! Installation of the sidecar as pods, on each platform, and its removal.

mod check;

pub(crate) mod pods {
    pub(crate) mod cert_manager;
    pub(crate) mod cluster_authorization;
    pub(crate) mod direct_endpoint;
    pub(crate) mod helm;
    pub(crate) mod in_pods;
    pub(crate) mod karmada;
    pub(crate) mod platforms;
    pub(crate) mod previous_installation;
    pub(crate) mod quickstart;
    pub(crate) mod removal;
    pub(crate) mod run_on;
    pub(crate) mod versions;
}

pub(crate) mod slow {
    pub(crate) mod previous_version;
}

pub(crate) mod quiet {
    pub(crate) mod authority;
    pub(crate) mod fleet;
}
