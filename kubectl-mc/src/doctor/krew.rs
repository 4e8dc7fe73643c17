//! Reads krew's receipt of the plugin `mc`. krew's own index has another plugin of this name, and
//! krew installs only one plugin per name, across all indexes.
//!
//! Below its root, krew links `bin/kubectl-mc` into `store/mc`, and writes the manifest of the plugin and the
//! name of its index to `receipts/mc.yaml` (krew: `internal/environment`, `pkg/index`).

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::env::{self, Env};

/// The plugin `mc` that krew has installed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KrewPlugin {
    index: String,
    version: String,
    /// Whether the manifest belongs to this project, in any version.
    is_ours: bool,
    /// Whether krew knows the index with this plugin.
    has_our_index: bool,
}

impl KrewPlugin {
    /// The krew plugin to which this program belongs; `None` for a program from elsewhere.
    pub(super) fn of(program: &Path, env: &Env) -> Option<Self> {
        let root = root(env)?.canonicalize().ok()?;
        let is_linked = program.parent()?.canonicalize().ok()? == root.join("bin");
        if !is_linked && !program.canonicalize().ok()?.starts_with(root.join("store/mc")) {
            return None;
        }
        // Without a receipt, krew can neither name nor uninstall the plugin.
        let text = std::fs::read_to_string(root.join("receipts/mc.yaml")).ok()?;
        let Receipt { spec, status } = serde_saphyr::from_str(&text).ok()?;
        Some(Self {
            // This is how krew reads a receipt without an index.
            index: if status.source.name.is_empty() { "default".to_owned() } else { status.source.name },
            version: spec.version,
            is_ours: spec.homepage.trim_end_matches('/') == env!("CARGO_PKG_REPOSITORY"),
            has_our_index: root.join("index").join(INDEX).is_dir(),
        })
    }

    /// `plugin mc v1.0.0 of krew's index "default"`
    pub(super) fn describe(&self) -> String {
        let name = if self.is_ours { "this plugin" } else { "plugin mc" };
        format!("{name} {} of krew's index {:?}", self.version, self.index)
    }

    /// The commands that replace another plugin with this one, or that uninstall another version of
    /// this one.
    pub(super) fn replace(&self) -> String {
        if self.is_ours {
            return UNINSTALL.to_owned();
        }
        let add = if self.has_our_index {
            String::new()
        } else {
            format!("kubectl krew index add {INDEX} {INDEX_URL} && ")
        };
        format!("{UNINSTALL} && {add}kubectl krew install {INDEX}/mc")
    }
}

/// krew's root (krew: `MustGetKrewPaths`).
fn root(env: &Env) -> Option<PathBuf> {
    env.var(env::KREW_ROOT).map(PathBuf::from).or_else(|| Some(env.home()?.join(".krew")))
}

/// The fields of krew's `index.Receipt` that the plugin reads.
#[derive(Deserialize)]
struct Receipt {
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    version: String,
    homepage: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    source: Source,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Source {
    name: String,
}

pub(super) const UNINSTALL: &str = "kubectl krew uninstall mc";
/// The name of the project's index in the commands of the README.
const INDEX: &str = "kubectl-mc";
const INDEX_URL: &str = "https://github.com/kubectl-mc/krew-index";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readme_names_the_same_commands() {
        let readme = include_str!("../../../README.md");
        assert!(readme.contains(&format!("kubectl krew index add {INDEX} {INDEX_URL}\n")));
        assert!(readme.contains(&format!("kubectl krew install {INDEX}/mc\n")));
    }
}
