//! Defines the errors for flags that a verb of the plugin does not take, with the next step.

use super::COMPLETION;
use crate::error::Explain;
use crate::exit::ExitStatus;

#[derive(Debug, thiserror::Error)]
pub(super) enum FlagError {
    #[error("`kubectl mc {verb}` takes no choice of clusters")]
    NoChoice { verb: &'static str },
    #[error("`kubectl mc {verb}` works on clusters behind a host, and not on contexts")]
    NoContexts { verb: &'static str },
    #[error(
        "`kubectl mc {verb}` takes no {flag}: the flag belongs to kubectl's commands on several clusters"
    )]
    OfKubectl { verb: &'static str, flag: &'static str },
}

impl Explain for FlagError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoChoice { verb: "clusters" } => {
                "--selector=KEY=VALUE narrows the list by labels, --where=FIELDS by fields".to_owned()
            }
            Self::NoChoice { verb: "install" | "uninstall" | "login" | "logout" | "audit" } => {
                "--context=NAME names another host".to_owned()
            }
            Self::NoChoice { verb: COMPLETION } => {
                "leave out the flags that choose clusters; kubectl's own scripts: kubectl completion SHELL"
                    .to_owned()
            }
            Self::NoChoice { .. } => "name the cluster as an argument".to_owned(),
            Self::NoContexts { verb: "use" } => "kubectl's own: kubectl config use-context NAME".to_owned(),
            Self::NoContexts { verb: "kubeconfig" } => {
                "your kubeconfig has these contexts; one of them alone in a file: kubectl config view --minify --raw --flatten --context=NAME"
                    .to_owned()
            }
            Self::NoContexts { .. } => "leave out --contexts and --context-selector".to_owned(),
            Self::OfKubectl { verb, .. } => format!("`kubectl mc {verb} --help` lists its flags"),
        })
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}

/// The parsed arguments of a verb cannot be read: a bug in the plugin.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the arguments")]
pub(super) struct Unreadable(#[source] pub(super) clap::Error);

impl Explain for Unreadable {}
