//! Resolves the choice of clusters (`--cluster`, sets, exclusions, labels, fields) to an ordered list of targets. Exact
//! names need no list of the host, so they need no right to one.

mod field_filter;
mod growth;
mod picker;
mod selected_clusters;
mod term;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kubectl_mc_api::ClusterName;

pub(crate) use field_filter::{FieldFilter, FieldFilterError};
pub(crate) use growth::{Growth, Lists};
pub(crate) use picker::{Picked, pick};
pub(crate) use selected_clusters::{Readiness, SelectedCluster, SelectedClusters};
pub(crate) use term::TermError;
use term::{Pattern, Term};

use crate::cluster::inventory::InventoryError;
use crate::config_file::ClusterSet;
use crate::error::Explain;
use crate::exit::ExitStatus;
use crate::suggestion;

/// What was chosen, not yet looked up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Choice {
    terms: Vec<Term>,
    selector: Option<String>,
    filter: FieldFilter,
}

impl Choice {
    /// Reads a choice; `None` when nothing was chosen. `terms` and `exclude` are lists with commas.
    pub(crate) fn parse<S: AsRef<str>>(
        terms: &[S],
        exclude: &[String],
        selector: Option<&str>,
        all: bool,
    ) -> Result<Option<Self>, TermError> {
        let mut parsed = Vec::new();
        for text in terms {
            parsed.extend(term::parse_list(text.as_ref())?);
        }
        for text in exclude {
            parsed.extend(term::parse_list(text)?.into_iter().map(Term::excluding));
        }
        let chosen = all || !parsed.is_empty() || selector.is_some();
        Ok(chosen.then(|| Self {
            terms: parsed,
            selector: selector.map(str::to_owned),
            filter: FieldFilter::default(),
        }))
    }

    /// The choice without the clusters that a filter leaves out; alone, a filter chooses of all clusters.
    pub(crate) fn filtered(choice: Option<Self>, filter: FieldFilter) -> Option<Self> {
        match filter.is_empty() {
            true => choice,
            false => Some(Self { filter, ..choice.unwrap_or_default() }),
        }
    }

    /// These very clusters.
    pub(crate) fn names(names: impl IntoIterator<Item = ClusterName>) -> Self {
        let terms = names.into_iter().map(|name| Term::include(Pattern::Exact(name))).collect();
        Self { terms, ..Self::default() }
    }

    /// The one cluster, when it was named and nothing else: kubectl then takes our place.
    pub(crate) fn exact(&self) -> Option<&ClusterName> {
        match self.terms.as_slice() {
            [Term { exclude: false, pattern: Pattern::Exact(name) }]
                if self.selector.is_none() && self.filter.is_empty() =>
            {
                Some(name)
            }
            _ => None,
        }
    }

    /// Whether it may come to mean other clusters than now.
    fn can_grow(&self) -> bool {
        let mut included = self.terms.iter().filter(|term| !term.exclude).peekable();
        self.selector.is_some()
            || !self.filter.is_empty()
            || included.peek().is_none()
            || included.any(|term| !matches!(term.pattern, Pattern::Exact(_)))
    }

    /// The targets, in the order of the terms, and by name within one. `list` asks the host for the
    /// clusters that a label selector chooses.
    pub(crate) fn resolve(
        &self,
        sets: &BTreeMap<String, ClusterSet>,
        list: &mut List<'_>,
    ) -> Result<SelectedClusters, SelectionError> {
        let mut resolver = Resolver { sets, list, lists: BTreeMap::new(), open: Vec::new() };
        let chosen = resolver.choose(&self.terms, self.selector.as_deref(), &self.filter)?;
        if chosen.is_empty() {
            // What there is helps more than that there is nothing; without the right to a list it stays unsaid.
            let known = resolver.universe(None).map(|all| all.iter().map(|t| t.name.clone()).collect());
            return Err(SelectionError::Nothing { known: known.unwrap_or_default() });
        }
        Ok(SelectedClusters::new(chosen))
    }
}

/// Asks the host for the clusters that a label selector chooses.
pub(crate) type List<'a> = dyn FnMut(Option<&str>) -> Result<Vec<SelectedCluster>, InventoryError> + 'a;

struct Resolver<'a, 'b> {
    sets: &'a BTreeMap<String, ClusterSet>,
    list: &'a mut List<'b>,
    /// What the host answered, by selector.
    lists: BTreeMap<Option<String>, Vec<SelectedCluster>>,
    /// The sets that are being looked into.
    open: Vec<String>,
}

impl Resolver<'_, '_> {
    fn choose(
        &mut self,
        terms: &[Term],
        selector: Option<&str>,
        filter: &FieldFilter,
    ) -> Result<Vec<SelectedCluster>, SelectionError> {
        let included = || terms.iter().filter(|term| !term.exclude).map(|term| &term.pattern);
        let mut chosen = Vec::new();
        if included().next().is_none() {
            chosen = self.universe(selector)?.to_vec();
        }
        // A selector leaves out what is there, and a filter matches nothing of a set that is gone.
        let may_be_absent = selector.is_some() || (!filter.is_empty() && !self.open.is_empty());
        let listed = selector.is_some() || !filter.is_empty() || included().any(Pattern::needs_list);
        for pattern in included() {
            match pattern {
                Pattern::Exact(name) if !listed => chosen.push(SelectedCluster::unlisted(name.clone())),
                Pattern::Exact(name) => match self.universe(selector)?.iter().find(|t| t.name == *name) {
                    Some(target) => chosen.push(target.clone()),
                    None if may_be_absent => {}
                    None => return Err(self.unknown(name.clone())),
                },
                Pattern::Set(name) => chosen.extend(self.set(name, selector, filter)?),
                pattern => {
                    let all = self.universe(selector)?;
                    chosen.extend(all.iter().filter(|target| pattern.matches(&target.name)).cloned());
                }
            }
        }
        for term in terms.iter().filter(|term| term.exclude) {
            // A set may name clusters that are gone; a person who mistypes a name would get the cluster.
            if self.open.is_empty()
                && let Pattern::Exact(name) = &term.pattern
            {
                self.check_excluded(name, &chosen)?;
            }
            if let Pattern::Set(name) = &term.pattern {
                let out = self.set(name, selector, &FieldFilter::default())?;
                chosen.retain(|target| !out.iter().any(|other| other.name == target.name));
            } else {
                chosen.retain(|target| !term.pattern.matches(&target.name));
            }
        }
        chosen.retain(|target| filter.matches(target));
        Ok(chosen)
    }

    fn set(
        &mut self,
        name: &str,
        selector: Option<&str>,
        filter: &FieldFilter,
    ) -> Result<Vec<SelectedCluster>, SelectionError> {
        let Some(set) = self.sets.get(name) else {
            return Err(SelectionError::NoSet {
                name: name.to_owned(),
                known: self.sets.keys().cloned().collect(),
                file: None,
            });
        };
        if self.open.iter().any(|open| open == name) {
            return Err(SelectionError::Circle { name: name.to_owned() });
        }
        let mut terms = Vec::new();
        for text in &set.clusters {
            let read = term::parse_list(text);
            terms.extend(read.map_err(|source| SelectionError::Set { name: name.to_owned(), source })?);
        }
        // Requirements of label selectors are joined by a comma, and all must hold.
        let both: Vec<_> = [selector, set.selector.as_deref()].into_iter().flatten().collect();
        let both = (!both.is_empty()).then(|| both.join(","));
        let own = FieldFilter::parse(set.r#where.as_slice());
        let own = own.map_err(|source| SelectionError::SetFilter { name: name.to_owned(), source })?;
        self.open.push(name.to_owned());
        let chosen = self.choose(&terms, both.as_deref(), &filter.and(&own));
        self.open.pop();
        chosen
    }

    fn universe(&mut self, selector: Option<&str>) -> Result<&[SelectedCluster], SelectionError> {
        let key = selector.map(str::to_owned);
        if !self.lists.contains_key(&key) {
            let mut all = (self.list)(selector)?;
            all.sort_by(|a, b| a.name.cmp(&b.name));
            self.lists.insert(key.clone(), all);
        }
        Ok(self.lists.get(&key).map_or(&[], Vec::as_slice))
    }

    /// An excluded name must be one of a cluster, unless that cannot be looked up.
    fn check_excluded(
        &mut self,
        name: &ClusterName,
        chosen: &[SelectedCluster],
    ) -> Result<(), SelectionError> {
        let is_in = |all: &[SelectedCluster]| all.iter().any(|target| target.name == *name);
        if is_in(chosen) {
            return Ok(());
        }
        match self.universe(None) {
            Ok(all) if !is_in(all) => {
                let known = all.iter().map(|target| target.name.clone()).collect();
                Err(SelectionError::Excluded { name: name.clone(), known })
            }
            _ => Ok(()),
        }
    }

    fn unknown(&mut self, name: ClusterName) -> SelectionError {
        let known = self.universe(None).map(|all| all.iter().map(|t| t.name.clone()).collect());
        SelectionError::Unknown { name, known: known.unwrap_or_default() }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SelectionError {
    #[error("no cluster matches")]
    Nothing { known: Vec<ClusterName> },
    #[error("cluster unknown: {name}")]
    Unknown { name: ClusterName, known: Vec<ClusterName> },
    #[error("cannot exclude {name}: no such cluster")]
    Excluded { name: ClusterName, known: Vec<ClusterName> },
    #[error("no set @{name} in {}", name_of(file.as_deref()))]
    NoSet { name: String, known: Vec<String>, file: Option<PathBuf> },
    #[error("the set @{name} contains itself")]
    Circle { name: String },
    #[error("the set @{name} of the configuration")]
    Set { name: String, source: TermError },
    #[error("the set @{name} of the configuration: where")]
    SetFilter { name: String, source: FieldFilterError },
    #[error(transparent)]
    List(#[from] InventoryError),
}

impl SelectionError {
    /// Names the file that the sets come from.
    pub(crate) fn in_file(self, configuration: Option<PathBuf>) -> Self {
        match self {
            Self::NoSet { name, known, .. } => Self::NoSet { name, known, file: configuration },
            error => error,
        }
    }
}

impl Explain for SelectionError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Nothing { known } => Some(what_there_is(known)),
            Self::Unknown { name, known } | Self::Excluded { name, known } => {
                match suggestion::nearest(name.as_str(), known.iter().map(ClusterName::as_str)) {
                    Some(nearest) => Some(format!("did you mean {nearest}?")),
                    None => Some(what_there_is(known)),
                }
            }
            Self::NoSet { known, file, .. } if known.is_empty() => Some(match file {
                Some(file) if !file.exists() => {
                    "the file does not exist; its key `sets` defines sets".to_owned()
                }
                _ => "the file has no sets; its key `sets` defines them".to_owned(),
            }),
            Self::NoSet { name, known, .. } => {
                let all = format!("there are @{}", known.join(", @"));
                let nearest = suggestion::nearest(name, known.iter().map(String::as_str));
                Some(nearest.map_or_else(|| all.clone(), |nearest| format!("did you mean @{nearest}? {all}")))
            }
            Self::Circle { .. } => None,
            Self::Set { source, .. } => source.hint(),
            Self::SetFilter { source, .. } => source.hint(),
            Self::List(error) => error.hint(),
        }
    }

    fn status(&self) -> ExitStatus {
        match self {
            Self::Nothing { .. } | Self::Unknown { .. } | Self::Excluded { .. } => ExitStatus::NoSuchCluster,
            Self::NoSet { .. } | Self::Circle { .. } | Self::Set { .. } | Self::SetFilter { .. } => {
                ExitStatus::Usage
            }
            Self::List(error) => error.status(),
        }
    }
}

/// The configuration file in a message.
fn name_of(file: Option<&Path>) -> String {
    file.map_or_else(|| "the configuration".to_owned(), |file| file.display().to_string())
}

/// `there are m1, m2 and 7 more: …`
pub(crate) fn what_there_is(known: &[ClusterName]) -> String {
    if known.is_empty() {
        return "`kubectl mc clusters` lists the clusters".to_owned();
    }
    let shown: Vec<_> = known.iter().take(SHOWN).map(ClusterName::as_str).collect();
    let shown = shown.join(", ");
    match known.len().saturating_sub(SHOWN) {
        0 => format!("there are {shown}"),
        more => format!("there are {shown} and {more} more: `kubectl mc clusters` lists them"),
    }
}

/// More names than these fill the terminal and are not read.
const SHOWN: usize = 20;

#[cfg(test)]
mod tests;
