//! Determines the clusters of a grant: resolved immediately from names and patterns, or selected by
//! labels for as long as the grant exists.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kubectl_mc_api::ClusterName;

use super::label_selector;
use crate::argv::Scanned;
use crate::cli::Flags;
use crate::cluster::context::{ClusterContext, HostOptions};
use crate::cluster::host::{Host, needs_sidecar};
use crate::cluster::inventory::{self, ListFormat};
use crate::config_file::{self, ConfigFile};
use crate::env::Env;
use crate::error::Failure;
use crate::multi::selection::{Choice, SelectedCluster, members_only};
use crate::settings::{ClusterChoice, cluster_choice, no_cluster};

/// The host with the credential that the list request obtained, and the selected clusters.
pub(super) struct Selection {
    pub(super) host: ClusterContext,
    pub(super) clusters: Clusters,
    /// The names and patterns as typed, sorted. They are independent of the clusters that match.
    pub(super) terms: Vec<String>,
}

/// The clusters of a grant.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Clusters {
    /// These clusters, by name.
    Named(Vec<SelectedCluster>),
    /// The clusters that match the selector, including future ones.
    Labelled { text: Option<String>, selector: LabelSelector },
}

impl Clusters {
    /// The flags that choose these clusters, for the command of a hint.
    pub(super) fn flags(&self) -> String {
        match self {
            Self::Named(clusters) => format!("--cluster={}", names(clusters).join(",")),
            Self::Labelled { text: Some(text), .. } => {
                crate::next_command::quoted(format!("--cluster-selector={text}").as_ref())
            }
            Self::Labelled { text: None, .. } => "--all-clusters".to_owned(),
        }
    }
}

/// The names of the clusters.
pub(super) fn names(clusters: &[SelectedCluster]) -> Vec<&str> {
    clusters.iter().map(|cluster| cluster.name.as_str()).collect()
}

/// Resolves the argument and the flags. Runs before the command's async runtime starts, because the list
/// request has its own.
pub(super) fn resolve(
    argument: Option<&str>,
    flags: &Flags,
    options: &HostOptions,
    env: &Env,
) -> Result<Selection, Failure> {
    let choice = cluster_choice(argument, flags)?.ok_or_else(no_cluster)?;
    let split = |prefix: &str, text: &str| -> Vec<String> {
        text.split(',').map(|term| format!("{prefix}{}", term.trim())).collect()
    };
    let excluded = flags.exclude.iter().flat_map(|text| split("!", text));
    let mut terms: Vec<_> = argument
        .into_iter()
        .chain(flags.cluster.iter().map(String::as_str))
        .flat_map(|text| split("", text))
        .chain(excluded)
        .chain(flags.r#where.iter().flat_map(|text| split("where ", text)))
        .collect();
    terms.sort_unstable();
    match choice {
        ClusterChoice::Selector(text) => {
            let selector = text.as_deref().map(label_selector::parse).transpose()?.unwrap_or_default();
            let host = ClusterContext::load(options, env)?;
            Ok(Selection { host, clusters: Clusters::Labelled { text, selector }, terms })
        }
        ClusterChoice::Now(choice) => {
            let (host, clusters) = now(&choice, options, env)?;
            Ok(Selection { host, clusters: Clusters::Named(clusters), terms })
        }
    }
}

/// The clusters whose rows `list` shows; `None` means all.
pub(super) fn filter(
    flags: &Flags,
    options: &HostOptions,
    env: &Env,
) -> Result<(ClusterContext, Option<Vec<ClusterName>>), Failure> {
    let choice = match cluster_choice(None, flags)? {
        None | Some(ClusterChoice::Selector(None)) => return Ok((ClusterContext::load(options, env)?, None)),
        Some(ClusterChoice::Now(choice)) => Some(choice),
        Some(ClusterChoice::Selector(selector)) => {
            Choice::parse::<&str>(&[], &[], selector.as_deref(), false).unwrap_or_default()
        }
    };
    let (host, clusters) = now(&choice.unwrap_or_default(), options, env)?;
    Ok((host, Some(clusters.iter().filter_map(|cluster| cluster.member().cloned()).collect())))
}

fn now(
    choice: &Choice,
    options: &HostOptions,
    env: &Env,
) -> Result<(ClusterContext, Vec<SelectedCluster>), Failure> {
    let scanned = Scanned::default();
    let host = Host::find(options, &scanned, env)?;
    if host.context().hub.is_foreign() {
        return Err(needs_sidecar("access", host.context()));
    }
    let list = |selector: Option<&str>| {
        let list = inventory::list(&host, selector, ListFormat::Objects)?;
        Ok(SelectedCluster::of_list(&list))
    };
    let sets = ConfigFile::load(env)?.sets;
    let clusters = choice.resolve(&sets, &mut members_only(list));
    let clusters = clusters.map_err(|error| error.in_file(config_file::path(env)))?;
    Ok((host.into_login(), clusters.iter().cloned().collect()))
}
