//! Checks the flags that choose clusters, and the host's hub, against what a verb of the plugin supports.

use clap::Arg;

use crate::cli::{Flags, HubChoice};
use crate::cluster::context::ClusterContext;
use crate::cluster::host::needs_sidecar;
use crate::env::Env;
use crate::error::Failure;
use crate::settings::Settings;

/// The hubs that a verb works with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hubs {
    Any,
    /// The sidecar of kubectl-mc.
    Own,
    /// None: the verb uses the host as an ordinary cluster.
    None,
}

/// The flags that choose clusters and that a verb supports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Clusters {
    None,
    /// The filter of the list.
    Where,
    /// Exact names: an argument or `--cluster`.
    ByName,
    /// All flags that choose members.
    Choice,
    /// The same, and contexts.
    Tool,
    /// All flags that choose members and contexts, and the flags for several clusters.
    Any,
    /// The same, and the color of lines.
    Lines,
}

/// A flag of the plugin, as shown in the help of a verb.
pub(super) fn adapted(flag: Arg, clusters: Clusters, hubs: Hubs) -> Arg {
    match (clusters, flag.get_id().as_str()) {
        (Clusters::ByName, "cluster") => flag.help("Name of the cluster, instead of the argument"),
        (Clusters::Choice | Clusters::Tool, "cluster") => flag
            .help("Clusters: names, globs, /regexes/, @sets, !exclusions; repeated or separated by commas"),
        (Clusters::Where, "where") => flag
            .help_heading(None::<&str>)
            .help("Filter by fields, as in 'status.version>=v1.34,ready!=False'"),
        (_, id) => {
            let is_shown = clusters.shows(id) || (id == "hub" && hubs == Hubs::Any);
            flag.hide(!is_shown)
        }
    }
}

impl Clusters {
    /// Whether the verb also works on contexts of the kubeconfig.
    pub(super) fn has_contexts(self) -> bool {
        matches!(self, Self::Where | Self::Tool | Self::Any | Self::Lines)
    }

    /// Whether the help of the verb shows this flag of the plugin.
    pub(super) fn shows(self, flag: &str) -> bool {
        let chooses = ["cluster", "cluster_selector", "where", "all_clusters", "exclude"].contains(&flag);
        let runs_on_several = ["cluster_concurrency", "cluster_timeout"].contains(&flag);
        ["context", "kubeconfig", "v"].contains(&flag)
            || (self.has_contexts() && ["contexts", "context_selector", "kubeconfig_dir"].contains(&flag))
            || match self {
                Self::None => false,
                Self::Where => flag == "where",
                Self::ByName => flag == "cluster",
                Self::Choice | Self::Tool => chooses,
                Self::Any => chooses || runs_on_several || flag == "route",
                Self::Lines => {
                    chooses || runs_on_several || ["route", "retry_failed", "color"].contains(&flag)
                }
            }
    }
}

impl Hubs {
    /// The flags of a verb; an error if the verb does not support the host's hub.
    pub(super) fn check(self, verb: &'static str, flags: Flags, env: &Env) -> Result<Flags, Failure> {
        match self {
            Self::Any => Ok(flags),
            Self::None => Ok(Flags { hub: Some(HubChoice::OWN), ..flags }),
            Self::Own => {
                // The verb itself reports problems with the host.
                let options = Settings::host_of(&flags, env).ok();
                let host = options.and_then(|options| ClusterContext::load(&options, env).ok());
                match host.filter(|host| host.hub.is_foreign()) {
                    Some(host) => Err(needs_sidecar(verb, &host)),
                    None => Ok(flags),
                }
            }
        }
    }
}
