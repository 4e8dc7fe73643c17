//! The flags of `version`, and the plugin's own version.

use clap::{Args, ValueEnum};

/// Kubernetes' form of the version.
pub(crate) const GIT_VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
/// The commit that was built; empty in a build that does not know it.
pub(crate) const GIT_COMMIT: &str = match option_env!("GIT_COMMIT") {
    Some(commit) => commit,
    None => "",
};

/// The version as it is printed.
pub(crate) fn version() -> String {
    with_commit(GIT_VERSION, GIT_COMMIT)
}

/// `v0.1.0 (commit 0d70860)`
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
