//! What the flags that choose clusters and the host's hub mean to a verb of the plugin.

use crate::cli::{Flags, HubChoice};
use crate::cluster::context::ClusterContext;
use crate::cluster::hub::NeedsSidecar;
use crate::env::Env;
use crate::settings::Settings;

/// Which hubs a verb works with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hubs {
    Any,
    /// kubectl-mc's own sidecar.
    Own,
    /// The host is a cluster like any other, whatever its hub is.
    None,
}

/// Which flags that choose clusters mean something to a verb.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Clusters {
    None,
    /// A filter of the list.
    Where,
    /// Exact names: an argument or `--cluster`.
    ByName,
    /// All of them.
    Choice,
    /// The same for contexts too.
    Tool,
    /// All of them, and the flags for several clusters.
    Members,
    /// The same for contexts too.
    Any,
    /// The same with the color of lines.
    Lines,
}

impl Clusters {
    /// Whether the verb works on contexts of the kubeconfig too.
    pub(super) fn has_contexts(self) -> bool {
        matches!(self, Self::Where | Self::Tool | Self::Any | Self::Lines)
    }

    /// Whether the help of the verb shows this flag of the plugin.
    pub(super) fn shows(self, flag: &str) -> bool {
        let chooses = ["cluster", "cluster_selector", "where", "all_clusters", "exclude"].contains(&flag);
        let runs_on_several = ["cluster_concurrency", "cluster_timeout"].contains(&flag);
        ["context", "kubeconfig", "v"].contains(&flag)
            || (self.has_contexts() && ["contexts", "context_selector"].contains(&flag))
            || match self {
                Self::None => false,
                Self::Where => flag == "where",
                Self::ByName => flag == "cluster",
                Self::Choice | Self::Tool => chooses,
                Self::Members | Self::Any => chooses || runs_on_several || flag == "route",
                Self::Lines => {
                    chooses || runs_on_several || ["route", "retry_failed", "color"].contains(&flag)
                }
            }
    }
}

impl Hubs {
    /// The flags of a verb; an error if the verb cannot work with the host's hub.
    pub(super) fn check(self, verb: &'static str, flags: Flags, env: &Env) -> Result<Flags, NeedsSidecar> {
        match self {
            Self::Any => Ok(flags),
            Self::None => Ok(Flags { hub: Some(HubChoice::OWN), ..flags }),
            Self::Own => {
                // What is wrong with the host is the verb's to say.
                let options = Settings::host_of(&flags, env).ok();
                let host = options.and_then(|options| ClusterContext::load(&options, env).ok());
                match host.filter(|host| host.hub.is_foreign()) {
                    Some(host) => Err(NeedsSidecar::new(verb, &host)),
                    None => Ok(flags),
                }
            }
        }
    }
}
