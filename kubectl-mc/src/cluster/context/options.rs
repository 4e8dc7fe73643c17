//! The options that name the host.

use std::path::PathBuf;

use crate::cli::HubChoice;

/// The host's kubeconfig, and which of its contexts is the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostOptions {
    /// `--kubeconfig`: the only file to read.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// `--context`, its variable or the configuration's value; `None` means the current context.
    pub(crate) context: Option<String>,
    /// `--hub`, its variable or the configuration's value.
    pub(crate) hub: HubChoice,
    /// `--kubeconfig-dir` or the configuration's value: the source of contexts that are chosen as
    /// clusters. Empty means the files of the host.
    pub(crate) kubeconfig_dirs: Vec<PathBuf>,
}

impl HostOptions {
    /// Options for a cluster that is not a hub of another project, such as a member's own context.
    pub(crate) fn plain(kubeconfig: Option<PathBuf>, context: Option<String>) -> Self {
        Self { kubeconfig, context, hub: HubChoice::OWN, kubeconfig_dirs: Vec::new() }
    }
}
