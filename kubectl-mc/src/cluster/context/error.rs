//! The reasons why there is no host or no context.

use std::path::PathBuf;

use kubectl_mc_api::dialect::OtherServer;

use crate::env;
use crate::error::{CommandLine, Explain, Hint, list_contexts};
use crate::exit::ExitStatus;
use crate::next_command::quoted;

#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    #[error("no host: no kubeconfig names a current context{}", in_files(files))]
    NoContext { files: Vec<PathBuf> },
    #[error("no contexts{}", in_files(files))]
    NoContexts { files: Vec<PathBuf> },
    #[error("no {role}: context {name:?} does not exist{}", in_files(files))]
    UnknownContext { role: &'static str, name: String, files: Vec<PathBuf> },
    #[error("no {role}: context {context:?} has no server: cluster {cluster:?} has none")]
    NoServer { role: &'static str, context: String, cluster: String },
    #[error("no {role}: the server of context {context:?} is neither a URL nor host:port: {server:?}")]
    InvalidServer { role: &'static str, context: String, server: String },
    #[error("no {role}: context {context:?} names user {user:?}, which does not exist{}", in_files(files))]
    NoUser { role: &'static str, context: String, user: String, files: Vec<PathBuf> },
    #[error("cannot use --hub")]
    Hub(#[from] OtherServer),
    #[error("cannot read kubeconfig {}", file.display())]
    Read { file: PathBuf, source: std::io::Error },
    #[error("cannot parse kubeconfig {}: {reason}", file.display())]
    Parse { file: PathBuf, reason: String },
    #[error("no file matches --kubeconfig-dir={}", glob.display())]
    NoFiles { glob: PathBuf },
    #[error("invalid glob: --kubeconfig-dir={}", glob.display())]
    InvalidGlob { glob: PathBuf },
}

impl HostError {
    /// The same for a context that is not the host of the command.
    pub(crate) fn in_role(mut self, other: &'static str) -> Self {
        match &mut self {
            Self::UnknownContext { role, .. }
            | Self::NoServer { role, .. }
            | Self::InvalidServer { role, .. }
            | Self::NoUser { role, .. } => {
                *role = other;
            }
            Self::NoContext { .. }
            | Self::NoContexts { .. }
            | Self::Hub(_)
            | Self::Read { .. }
            | Self::Parse { .. }
            | Self::NoFiles { .. }
            | Self::InvalidGlob { .. } => {}
        }
        self
    }
}

impl Explain for HostError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NoContext { .. } => Some(
                Hint::from(format!("choose the host by --context=NAME, {} or `", env::CONTEXT))
                    .then(CommandLine::new("kubectl config use-context NAME"))
                    .then("`"),
            ),
            Self::NoContexts { .. } => Some("name a kubeconfig by --kubeconfig=FILE or KUBECONFIG".into()),
            Self::UnknownContext { .. } => Some(list_contexts()),
            Self::NoServer { cluster, .. } => {
                let command = format!("kubectl config set-cluster {} --server=URL", quoted(cluster.as_ref()));
                Some(CommandLine::new(command).after("add it"))
            }
            Self::NoUser { context, .. } => {
                let command = format!("kubectl config set-context {} --user=NAME", quoted(context.as_ref()));
                Some(CommandLine::new(command).after("add the user, or name another"))
            }
            Self::Hub(_) => Some("give the path alone: --hub=template=/PATH/{cluster}".into()),
            Self::InvalidServer { .. } => Some("write it as https://HOST:PORT".into()),
            Self::NoFiles { .. } | Self::InvalidGlob { .. } => Some(
                "name a folder, a file or a glob, as in --kubeconfig-dir='~/.kube/clusters/*.yaml'".into(),
            ),
            Self::Read { .. } | Self::Parse { .. } => None,
        }
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}

fn in_files(files: &[PathBuf]) -> String {
    let name = |file: &PathBuf| {
        let missing = if file.exists() { "" } else { " (no such file)" };
        format!("{}{missing}", file.display())
    };
    let names: Vec<_> = files.iter().map(name).collect();
    if names.is_empty() { String::new() } else { format!(" in {}", names.join(", ")) }
}
