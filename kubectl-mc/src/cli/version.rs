//! Defines the flags of `version`, and the plugin's own version.

use clap::{Args, ValueEnum};

/// The version in the format of Kubernetes.
pub(crate) const GIT_VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
/// The commit of the build; empty if the build does not know it.
pub(crate) const GIT_COMMIT: &str = match option_env!("GIT_COMMIT") {
    Some(commit) => commit,
    None => "",
};

/// The printed version.
pub(crate) fn version() -> String {
    with_commit(GIT_VERSION, GIT_COMMIT)
}

/// Such as `v0.1.0 (commit 0d70860)`.
pub(crate) fn with_commit(version: &str, commit: &str) -> String {
    if commit.is_empty() { version.to_owned() } else { format!("{version} (commit {commit})") }
}

#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Print the version of the plugin only; contact no host
    #[arg(long)]
    pub(crate) client: bool,
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT")]
    pub(crate) output: Option<DataFormat>,
}

/// A format for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataFormat {
    Json,
    Yaml,
}
