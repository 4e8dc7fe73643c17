//! Serves `/version`: the sidecar's own version, in the format of a kube-apiserver (apimachinery:
//! `version.Info`).

use serde_json::{Value, json};

pub(super) fn info() -> Value {
    json!({
        "major": env!("CARGO_PKG_VERSION_MAJOR"),
        "minor": env!("CARGO_PKG_VERSION_MINOR"),
        "gitVersion": GIT_VERSION,
        "gitCommit": GIT_COMMIT,
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    })
}

/// Go's names, as everywhere in Kubernetes.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

pub(super) const GIT_VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
/// The commit of this build; empty if it is unknown.
pub(super) const GIT_COMMIT: &str = match option_env!("GIT_COMMIT") {
    Some(commit) => commit,
    None => "",
};
