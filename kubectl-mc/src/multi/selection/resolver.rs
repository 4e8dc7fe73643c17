//! Resolves terms, sets and selectors to clusters, and requests each list once.

use std::collections::BTreeMap;

use kubectl_mc_api::ClusterName;

use super::field_filter::FieldFilter;
use super::list::{List, ListOf};
use super::selected_clusters::SelectedCluster;
use super::selection_error::SelectionError;
use super::term::{self, Kind, Pattern, Term};
use crate::cluster::cluster_id::ClusterId;
use crate::config_file::ClusterSet;
use crate::error::Context;

pub(super) struct Resolver<'a, 'b> {
    sets: &'a BTreeMap<String, ClusterSet>,
    list: &'a mut List<'b>,
    /// The kind of clusters if no term includes any.
    from: Kind,
    lists: BTreeMap<ListOf, Vec<SelectedCluster>>,
    /// The sets that are being resolved.
    open: Vec<String>,
}

impl<'a, 'b> Resolver<'a, 'b> {
    /// `from` is the kind of clusters if no term includes any.
    pub(super) fn new(sets: &'a BTreeMap<String, ClusterSet>, list: &'a mut List<'b>, from: Kind) -> Self {
        Self { sets, list, from, lists: BTreeMap::new(), open: Vec::new() }
    }

    /// The clusters, in the order of the terms.
    pub(super) fn choose(
        &mut self,
        terms: &[Term],
        selector: Option<&str>,
        filter: &FieldFilter,
    ) -> Result<Vec<SelectedCluster>, SelectionError> {
        let terms = &self.among_contexts(terms)?;
        let included = || terms.iter().filter(|term| !term.exclude).map(|term| &term.pattern);
        let mut chosen = Vec::new();
        let members = ListOf::Members(selector.map(str::to_owned));
        if included().next().is_none() {
            // A set without cluster terms selects members.
            let contexts = self.from == Kind::Contexts && self.open.is_empty();
            let from = if contexts { ListOf::Contexts } else { members.clone() };
            chosen = self.universe(from)?.to_vec();
        }
        if (selector.is_some() || !filter.is_empty()) && included().any(Pattern::is_of_contexts) {
            return Err(SelectionError::NoLabels);
        }
        // A selector may filter out an existing cluster, and a filter on a set never matches a removed one.
        let may_be_absent = selector.is_some() || (!filter.is_empty() && !self.open.is_empty());
        let listed = selector.is_some() || !filter.is_empty() || included().any(Pattern::needs_list);
        for pattern in included() {
            match pattern {
                Pattern::Exact(name) if !listed => {
                    chosen.push(SelectedCluster::unlisted(name.clone().into()));
                }
                Pattern::Set(name) => chosen.extend(self.set(name, selector, filter)?),
                pattern => {
                    let from = if pattern.is_of_contexts() { ListOf::Contexts } else { members.clone() };
                    let found = self.universe(from)?.iter().filter(|target| pattern.includes(&target.name));
                    let before = chosen.len();
                    chosen.extend(found.cloned());
                    match pattern {
                        Pattern::Exact(name) if chosen.len() == before && !may_be_absent => {
                            return Err(self.unknown(name.clone()));
                        }
                        Pattern::Context(name) if chosen.len() == before => {
                            let known = self.known(ListOf::Contexts);
                            return Err(SelectionError::UnknownContext { name: name.clone(), known });
                        }
                        _ => {}
                    }
                }
            }
        }
        for term in terms.iter().filter(|term| term.exclude) {
            // A set may exclude removed clusters. On the command line, a mistyped exclusion would select the
            // cluster, so it is checked.
            if self.open.is_empty() {
                self.check_excluded(&term.pattern, &chosen)?;
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

    /// The terms, where a glob that equals the name of a context stands for that name.
    fn among_contexts(&mut self, terms: &[Term]) -> Result<Vec<Term>, SelectionError> {
        let mut resolved = Vec::new();
        for term in terms {
            let names = match term.pattern {
                Pattern::ContextGlob(_) => self.universe(ListOf::Contexts)?,
                _ => &[],
            };
            let names = || names.iter().filter_map(|target| target.name.context());
            let pattern = term.pattern.among(|name| names().any(|context| context.raw_name() == name))?;
            resolved.push(Term { exclude: term.exclude, pattern });
        }
        Ok(resolved)
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
            let read = term::parse_list(text, Kind::Members);
            terms.extend(read.context(|| format!("the set @{name} of the configuration"))?);
        }
        // A comma joins the requirements of label selectors, all of which apply.
        let both: Vec<_> = [selector, set.selector.as_deref()].into_iter().flatten().collect();
        let both = (!both.is_empty()).then(|| both.join(","));
        let own = FieldFilter::parse(set.r#where.as_slice());
        let own = own.context(|| format!("the set @{name} of the configuration: where"))?;
        self.open.push(name.to_owned());
        let chosen = self.choose(&terms, both.as_deref(), &filter.and(&own));
        self.open.pop();
        chosen
    }

    fn universe(&mut self, from: ListOf) -> Result<&[SelectedCluster], SelectionError> {
        if !self.lists.contains_key(&from) {
            let mut all = (self.list)(&from)?;
            all.sort_by(|a, b| a.name.cmp(&b.name));
            self.lists.insert(from.clone(), all);
        }
        Ok(self.lists.get(&from).map_or(&[], Vec::as_slice))
    }

    /// The names of the existing clusters; empty if they cannot be listed.
    pub(super) fn known(&mut self, from: ListOf) -> Vec<ClusterId> {
        let all = self.universe(from).unwrap_or_default();
        all.iter().map(|target| target.name.clone()).collect()
    }

    /// Checks that an excluded name exists, unless the clusters cannot be listed.
    fn check_excluded(
        &mut self,
        pattern: &Pattern,
        chosen: &[SelectedCluster],
    ) -> Result<(), SelectionError> {
        let (name, from) = match pattern {
            Pattern::Exact(name) => (name.as_str(), ListOf::Members(None)),
            Pattern::Context(name) => (name.as_str(), ListOf::Contexts),
            Pattern::Expression(_)
            | Pattern::ContextExpression(_)
            | Pattern::ContextGlob(_)
            | Pattern::Set(_) => return Ok(()),
        };
        let is_in = |all: &[SelectedCluster]| all.iter().any(|target| pattern.matches(&target.name));
        if is_in(chosen) {
            return Ok(());
        }
        match self.universe(from.clone()) {
            Ok(all) if !is_in(all) => {
                Err(SelectionError::Excluded { name: name.to_owned(), known: self.known(from) })
            }
            _ => Ok(()),
        }
    }

    fn unknown(&mut self, name: ClusterName) -> SelectionError {
        let known = self.known(ListOf::Members(None));
        SelectionError::Unknown { name, known: known.iter().filter_map(|id| id.member().cloned()).collect() }
    }
}
