//! The plugin's commands and output, on one cluster and on several.

mod completion;
mod contexts;
mod direct_get;
mod direct_logs;
mod doctor;
mod exact_output;
mod hub_template;
mod kubeconfig;
mod kubectl;
mod listen;
mod login;
mod logs;
mod many_clusters;
mod renewed_login;
mod several_clusters;
mod tail;
mod union;
mod version;
mod walkthrough;
mod where_fields;
mod wrong_cluster;

pub(crate) mod slow {
    pub(crate) mod direct_can_i;
    pub(crate) mod direct_versions;
    pub(crate) mod hostile;
    pub(crate) mod kubectl_versions;
    pub(crate) mod listen_python;
    pub(crate) mod other_tools;
    pub(crate) mod pager;
    pub(crate) mod rollouts;
    pub(crate) mod windows;
}
