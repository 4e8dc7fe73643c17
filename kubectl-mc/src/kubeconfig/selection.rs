//! Resolves the host and the clusters of a kubeconfig verb.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::path::PathBuf;

use kubectl_mc_api::ClusterName;

use crate::argv::Scanned;
use crate::chosen_cluster::ChosenCluster;
use crate::cli::Flags;
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::{self, ClusterContext, HostError};
use crate::cluster::credential::Login;
use crate::cluster::inventory::{self, InventoryError, ListFormat};
use crate::config_file;
use crate::env::{self, Env};
use crate::error::{Failure, Hint, mc};
use crate::multi::selection::{self, Choice, Kind, ListOf, SelectedCluster, SelectionError};
use crate::next_command::quoted;
use crate::printer::Printer;
use crate::settings::{Settings, takes_no_retry};

/// The members for `kubeconfig`.
pub(super) struct Members {
    pub(super) host: ClusterContext,
    /// Never empty.
    pub(super) clusters: Vec<ClusterName>,
    /// All clusters of the host, if its list was needed.
    pub(super) all: Option<Vec<ClusterName>>,
}

impl Members {
    /// Resolves the members; without a choice, all of them. If `needs_list` is set, the command fails without
    /// the host's list.
    pub(super) fn resolve(
        terms: &[String],
        needs_list: bool,
        flags: &Flags,
        env: &Env,
        printer: &Printer,
    ) -> Result<Self, Failure> {
        let request = Request { terms, verb: Verb::Kubeconfig, needs_list };
        let Resolved { host, clusters, all } = request.resolve(flags, env, printer)?;
        let clusters = clusters.iter().filter_map(|cluster| cluster.member().cloned()).collect();
        let host = host.ok_or(InventoryError::MembersOnly)?;
        Ok(Self { host, clusters, all })
    }
}

/// The members and contexts for `env`, `shell` or `listen`.
pub(crate) struct Chosen {
    /// `None` if all clusters are contexts.
    host: Option<ClusterContext>,
    /// Never empty.
    clusters: Vec<ClusterId>,
}

impl Chosen {
    /// Resolves the clusters; without a selection, the cluster of `kubectl mc use`.
    pub(crate) fn resolve(
        terms: &[String],
        flags: &Flags,
        env: &Env,
        printer: &Printer,
    ) -> Result<Self, Failure> {
        let request = Request { terms, verb: Verb::OfTools, needs_list: false };
        let Resolved { host, clusters, .. } = request.resolve(flags, env, printer)?;
        for context in clusters.iter().filter_map(ClusterId::context) {
            context.cluster.check_usable()?;
        }
        Ok(Self { host, clusters })
    }

    /// Each cluster with the context that reaches it.
    pub(crate) fn reached(&self) -> Vec<(&ClusterContext, &ClusterId)> {
        self.clusters.iter().filter_map(|cluster| Some((self.through(cluster)?, cluster))).collect()
    }

    fn through<'a>(&'a self, cluster: &'a ClusterId) -> Option<&'a ClusterContext> {
        match cluster {
            ClusterId::Context(context) => Some(&context.cluster),
            ClusterId::Member(_) => self.host.as_ref(),
        }
    }

    /// The user's kubeconfig files, which contain the overlay's users.
    pub(super) fn files(&self) -> &[PathBuf] {
        let reached = self.reached();
        let copies = self.has_copies();
        let by_name = reached.iter().find(|(through, _)| !copies || through.island.is_none());
        by_name.map_or(&[], |(through, _)| &through.files)
    }

    /// Whether the overlay has a copy of each user of `--kubeconfig-dir`: users in different files
    /// may have the same name.
    pub(super) fn has_copies(&self) -> bool {
        let reached = self.reached();
        let first = reached.first().map(|(through, _)| &through.files);
        let has_islands = reached.iter().any(|(through, _)| through.island.is_some());
        has_islands && reached.iter().any(|(through, _)| Some(&through.files) != first)
    }

    /// The names, joined by commas.
    pub(super) fn names(&self) -> String {
        self.clusters.iter().map(ClusterId::as_str).collect::<Vec<_>>().join(",")
    }

    /// The names without the characters that are special in a shell, because context names are arbitrary.
    pub(super) fn prompt(&self) -> String {
        self.names().replace(|c: char| !c.is_alphanumeric() && !"-_.,:/@=+".contains(c), "_")
    }

    /// The clusters and their origin, for messages.
    pub(super) fn describe(&self) -> String {
        let names = self.names();
        match (&self.host, self.clusters.as_slice()) {
            (Some(host), clusters) if clusters.iter().all(|cluster| cluster.member().is_some()) => {
                format!("{names} of {}", host.context_name())
            }
            (None, [ClusterId::Context(only)]) => only.cluster.context_name(),
            (None, _) => format!("contexts {names}"),
            (Some(_), _) => names,
        }
    }

    /// `kubectl mc` with the flags that choose the same kubeconfig and host.
    pub(super) fn kubectl_mc(&self) -> String {
        match (&self.host, self.reached().first()) {
            (Some(host), _) => host.kubectl_mc(),
            (None, Some((context, _))) => context.kubectl_mc_file(),
            (None, None) => "kubectl mc".to_owned(),
        }
    }

    /// The clusters in the notation of arguments.
    pub(super) fn terms(&self) -> String {
        let terms = self.clusters.iter().map(ClusterId::as_term).collect::<Vec<_>>().join(",");
        quoted(OsStr::new(&terms))
    }
}

/// The verb of the selection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    /// Only members; all of them without a choice.
    Kubeconfig,
    /// Members and contexts; the cluster of `kubectl mc use` without a choice.
    OfTools,
}

/// The input of a selection.
struct Request<'a> {
    /// The arguments, in the notation of `--cluster`.
    terms: &'a [String],
    verb: Verb,
    /// Whether the command fails without the host's list.
    needs_list: bool,
}

struct Resolved {
    /// `None` if all clusters are contexts.
    host: Option<ClusterContext>,
    clusters: Vec<ClusterId>,
    /// All clusters of the host, if its list was needed.
    all: Option<Vec<ClusterName>>,
}

impl Request<'_> {
    /// Resolves the arguments and the flags. A name that the host does not know is an error; if the host does
    /// not respond, exact names are accepted.
    fn resolve(&self, flags: &Flags, env: &Env, printer: &Printer) -> Result<Resolved, Failure> {
        if flags.retry_failed {
            return Err(takes_no_retry());
        }
        let mut flags = flags.clone();
        flags.cluster.splice(..0, self.terms.iter().cloned());
        let settings = Settings::resolve(&flags, env)?;
        let scanned = Scanned::default();
        // The host is loaded on first use, because contexts need none.
        let found = OnceCell::new();
        let host = || -> Result<&ClusterContext, HostError> {
            if let Some(host) = found.get() {
                return Ok(host);
            }
            let host = ClusterContext::load(&settings.host, env)?;
            Ok(found.get_or_init(|| host))
        };
        if self.verb == Verb::Kubeconfig || settings.choice.is_none() && settings.from == Kind::Members {
            host()?;
        }
        let login = OnceCell::new();
        let mut list = |from: &ListOf| match from {
            ListOf::Members(selector) => {
                let host = host()?;
                let login = login.get_or_init(|| Login::new(host, &scanned, env));
                let client = |source| InventoryError::Client { host: host.describe(), source };
                let selector = selector.as_deref();
                let list = inventory::list(
                    login.host().map_err(client)?,
                    &scanned,
                    env,
                    selector,
                    ListFormat::Objects,
                )?;
                Ok(SelectedCluster::of_list(&list))
            }
            ListOf::Contexts if self.verb == Verb::Kubeconfig => Err(InventoryError::MembersOnly),
            ListOf::Contexts => {
                let contexts = context::contexts(&settings.host, env)?;
                contexts.notes().for_each(|note| printer.note_line(&note));
                Ok(SelectedCluster::of_contexts(contexts.all))
            }
        };
        let choice = match settings.choice {
            Some(choice) => choice,
            None => self.fall_back(found.get(), settings.from, &mut list, env)?,
        };
        let chosen = choice.resolve(&settings.sets, &mut list);
        let chosen = chosen.map_err(|error| error.in_file(config_file::path(env)))?;
        let members: Vec<_> = chosen.iter().filter_map(|cluster| cluster.member().cloned()).collect();
        if !members.is_empty() {
            host()?;
        }
        let is_listed = chosen.iter().all(|cluster| cluster.listed.is_some() || cluster.member().is_none());
        let all = match list_of(&mut list, !is_listed || self.needs_list) {
            Ok(all) => all,
            Err(InventoryError::NoList { .. }) if !self.needs_list => None,
            Err(error) if !self.needs_list && !matches!(error, InventoryError::OtherHub(_)) => {
                let names = members.iter().map(ClusterName::as_str).collect::<Vec<_>>().join(", ");
                printer.note_line(&format!("warning: the host did not confirm {names}: {error}"));
                None
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(known) = &all
            && let Some(name) = members.iter().find(|name| !known.contains(name))
        {
            return Err(SelectionError::Unknown { name: name.clone(), known: known.clone() }.into());
        }
        let clusters = chosen.names().cloned().collect();
        drop(login);
        Ok(Resolved { host: found.into_inner(), clusters, all })
    }

    fn fall_back(
        &self,
        host: Option<&ClusterContext>,
        kind: Kind,
        list: &mut selection::List<'_>,
        env: &Env,
    ) -> Result<Choice, Failure> {
        if self.verb == Verb::Kubeconfig {
            return Ok(Choice::default());
        }
        let from = match (kind, host) {
            (Kind::Contexts, _) => ListOf::Contexts,
            (Kind::Members, host) => {
                let in_use = host.map(|host| ChosenCluster::load(host, env)).transpose()?;
                if let Some(cluster) = in_use.and_then(|in_use| in_use.cluster) {
                    return Ok(Choice::names([cluster.into()]));
                }
                ListOf::Members(None)
            }
        };
        let known = match list(&from) {
            Err(InventoryError::OtherHub(other)) => return Err(other.into()),
            known => known.unwrap_or_default(),
        };
        let known: Vec<_> = known.iter().map(|cluster| &cluster.name).collect();
        let there_is = selection::what_there_is(&known, kind);
        let hint = match kind {
            Kind::Contexts => Hint::from("choose by an argument, -C NAME or --context-selector"),
            Kind::Members => Hint::from(format!("choose by an argument, by -C NAME, {} or `", env::CLUSTER))
                .then(mc("use NAME"))
                .then("`"),
        };
        Err(Failure::usage(format!("no {} chosen", kind.word())).with_hint(hint.and(there_is)))
    }
}

fn list_of(
    list: &mut selection::List<'_>,
    is_needed: bool,
) -> Result<Option<Vec<ClusterName>>, InventoryError> {
    let names = |clusters: Vec<SelectedCluster>| {
        clusters.iter().filter_map(|cluster| cluster.member().cloned()).collect()
    };
    is_needed.then(|| list(&ListOf::Members(None)).map(names)).transpose()
}
