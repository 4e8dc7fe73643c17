//! The plugin's commands and output, on one cluster and on several.

mod completion;
mod contexts;
mod direct_get;
mod direct_logs;
mod direct_reports;
mod direct_versions;
mod doctor;
mod exact_output;
mod hubs;
mod kubeconfig;
mod kubectl;
mod kubectl_versions;
mod login;
mod logs;
mod many_clusters;
mod other_tools;
mod renewed_login;
mod rollouts;
mod several_clusters;
mod tail;
mod version;
mod walkthrough;
mod where_fields;
mod wrong_cluster;
