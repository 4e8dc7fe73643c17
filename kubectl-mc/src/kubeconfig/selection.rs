//! The host and the clusters that a verb was given.

use kubectl_mc_api::ClusterName;

use crate::argv::Scanned;
use crate::chosen_cluster::ChosenCluster;
use crate::cli::Flags;
use crate::cluster::context::ClusterContext;
use crate::cluster::credential::Login;
use crate::cluster::inventory::{self, InventoryError, ListFormat};
use crate::config_file;
use crate::env::{self, Env};
use crate::error::{Explain, Failure};
use crate::exit::ExitStatus;
use crate::multi::selection::{self, Choice, Kind, ListOf, SelectedCluster, SelectionError, members_only};
use crate::printer::Printer;
use crate::settings::{ClusterChoiceError, Settings};

/// What a verb was given.
pub(super) struct Selection {
    pub(super) host: ClusterContext,
    /// At least one.
    pub(super) clusters: Vec<ClusterName>,
    /// All clusters of the host, if its list was needed.
    pub(super) all: Option<Vec<ClusterName>>,
}

/// The clusters when none are chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fallback {
    All,
    /// That of `kubectl mc use`.
    InUse,
}

/// What is wanted of a selection.
pub(super) struct Request<'a> {
    /// The arguments: terms as those of `--cluster`.
    pub(super) terms: &'a [String],
    pub(super) fallback: Fallback,
    /// Whether the command fails without the host's list.
    pub(super) needs_list: bool,
}

impl Request<'_> {
    /// Resolves the arguments and the flags. A name that the host does not know is an error; if the host does not answer,
    /// exact names are taken as they are.
    pub(super) fn resolve(&self, flags: &Flags, env: &Env, printer: &Printer) -> Result<Selection, Failure> {
        if flags.retry_failed {
            return Err(ClusterChoiceError::RetryFailed.into());
        }
        let mut flags = flags.clone();
        flags.cluster.splice(..0, self.terms.iter().cloned());
        let settings = Settings::resolve(&flags, env)?;
        let host = ClusterContext::load(&settings.host, env)?;
        let scanned = Scanned::default();
        let login = Login::new(&host, &scanned);
        let list = |selector: Option<&str>| {
            let client = |source| InventoryError::Client { host: host.describe(), source };
            let host = login.host().map_err(client)?;
            let list = inventory::list(host, &scanned, env, selector, ListFormat::Objects)?;
            Ok(SelectedCluster::of_list(&list))
        };
        let mut list = members_only(list);
        let choice = match settings.choice {
            Some(choice) => choice,
            None => self.fall_back(&host, &mut list, env)?,
        };
        let chosen = choice.resolve(&settings.sets, &mut list);
        let chosen = chosen.map_err(|error| error.in_file(config_file::path(env)))?;
        let clusters: Vec<_> = chosen.iter().filter_map(|cluster| cluster.member().cloned()).collect();
        let is_listed = chosen.iter().all(|cluster| cluster.listed.is_some());
        let all = match list_of(&mut list, !is_listed || self.needs_list) {
            Ok(all) => all,
            Err(InventoryError::NoList { .. }) if !self.needs_list => None,
            Err(error) if !self.needs_list && !matches!(error, InventoryError::OtherHub(_)) => {
                let names = clusters.iter().map(ClusterName::as_str).collect::<Vec<_>>().join(", ");
                printer.note_line(&format!("warning: the host did not confirm {names}: {error}"));
                None
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(known) = &all
            && let Some(name) = clusters.iter().find(|name| !known.contains(name))
        {
            return Err(SelectionError::Unknown { name: name.clone(), known: known.clone() }.into());
        }
        drop(list);
        Ok(Selection { host, clusters, all })
    }

    fn fall_back(
        &self,
        host: &ClusterContext,
        list: &mut selection::List<'_>,
        env: &Env,
    ) -> Result<Choice, Failure> {
        if self.fallback == Fallback::All {
            return Ok(Choice::default());
        }
        match ChosenCluster::load(host, env)?.cluster {
            Some(cluster) => Ok(Choice::names([cluster.into()])),
            None => Err(NoCluster { known: names(&list(&ListOf::Members(None)).unwrap_or_default()) }.into()),
        }
    }
}

fn list_of(
    list: &mut selection::List<'_>,
    is_needed: bool,
) -> Result<Option<Vec<ClusterName>>, InventoryError> {
    is_needed.then(|| list(&ListOf::Members(None)).map(|all| names(&all))).transpose()
}

fn names(clusters: &[SelectedCluster]) -> Vec<ClusterName> {
    clusters.iter().filter_map(|cluster| cluster.member().cloned()).collect()
}

#[derive(Debug, thiserror::Error)]
#[error("no cluster chosen")]
struct NoCluster {
    known: Vec<ClusterName>,
}

impl Explain for NoCluster {
    fn hint(&self) -> Option<String> {
        Some(format!(
            "choose by an argument, by -C NAME, {} or `kubectl mc use NAME`; {}",
            env::CLUSTER,
            selection::what_there_is(&self.known, Kind::Members)
        ))
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}
