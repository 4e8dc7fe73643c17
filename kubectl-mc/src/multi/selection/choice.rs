//! The choice of clusters: its terms, the label selector and the filters.

use std::collections::BTreeMap;

use kubectl_mc_api::ClusterName;

use super::context_filter::ContextFilter;
use super::field_filter::FieldFilter;
use super::list::{List, ListOf};
use super::resolver::Resolver;
use super::selected_clusters::SelectedClusters;
use super::selection_error::SelectionError;
use super::term::{self, Kind, Pattern, Term};
use crate::cluster::cluster_id::ClusterId;
use crate::config_file::ClusterSet;
use crate::error::Failure;

/// The choice before it is resolved.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Choice {
    pub(super) terms: Vec<Term>,
    /// The kind of clusters if no term includes any.
    pub(super) from: Kind,
    pub(super) selector: Option<String>,
    pub(super) filter: FieldFilter,
    /// Filters the contexts.
    pub(super) contexts: ContextFilter,
}

impl Choice {
    /// Parses a choice of members; `None` if nothing was chosen. `terms` and `exclude` are lists with commas.
    pub(crate) fn parse<S: AsRef<str>>(
        terms: &[S],
        exclude: &[String],
        selector: Option<&str>,
        all: bool,
    ) -> Result<Option<Self>, Failure> {
        let parsed = parse_terms(terms, exclude, Kind::Members)?;
        let chosen = all || !parsed.is_empty() || selector.is_some();
        let selector = selector.map(str::to_owned);
        Ok(chosen.then(|| Self { terms: parsed, selector, ..Self::default() }))
    }

    /// The same for contexts, with a filter.
    pub(crate) fn parse_contexts<S: AsRef<str>>(
        terms: &[S],
        exclude: &[String],
        filter: Option<ContextFilter>,
        all: bool,
    ) -> Result<Option<Self>, Failure> {
        let parsed = parse_terms(terms, exclude, Kind::Contexts)?;
        let chosen = all || !parsed.is_empty() || filter.is_some();
        let contexts = filter.unwrap_or_default();
        Ok(chosen.then(|| Self { terms: parsed, from: Kind::Contexts, contexts, ..Self::default() }))
    }

    /// The choice, restricted by a filter. Without a choice, the filter applies to all clusters.
    pub(crate) fn filtered(choice: Option<Self>, filter: FieldFilter) -> Option<Self> {
        match filter.is_empty() {
            true => choice,
            false => Some(Self { filter, ..choice.unwrap_or_default() }),
        }
    }

    /// Exactly these clusters.
    pub(crate) fn names(clusters: impl IntoIterator<Item = ClusterId>) -> Self {
        let pattern = |cluster| match cluster {
            ClusterId::Member(name) => Pattern::Exact(name),
            ClusterId::Context(context) => Pattern::Context(context.raw_name().to_owned()),
        };
        Self {
            terms: clusters.into_iter().map(|cluster| Term::include(pattern(cluster))).collect(),
            ..Self::default()
        }
    }

    /// Exactly these members and contexts.
    pub(crate) fn remembered(members: Vec<ClusterName>, contexts: Vec<String>) -> Self {
        let members = members.into_iter().map(Pattern::Exact);
        let patterns = members.chain(contexts.into_iter().map(Pattern::Context));
        Self { terms: patterns.map(Term::include).collect(), ..Self::default() }
    }

    /// The cluster, if the choice is a single name: kubectl then replaces this process.
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

    /// Whether the selection is a single context name, which resolved to these targets.
    pub(crate) fn is_exact_context(&self, targets: &SelectedClusters) -> bool {
        let [Term { exclude: false, pattern }] = self.terms.as_slice() else { return false };
        match pattern {
            Pattern::Context(_) => true,
            Pattern::ContextGlob(name) => {
                let context = targets.only().and_then(|only| only.name.context());
                context.is_some_and(|context| context.raw_name() == name)
            }
            _ => false,
        }
    }

    /// Whether the choice may match other clusters later.
    pub(super) fn can_grow(&self) -> bool {
        let mut included = self.terms.iter().filter(|term| !term.exclude).peekable();
        self.selector.is_some()
            || !self.filter.is_empty()
            || (included.peek().is_none() && self.from == Kind::Members)
            || included.any(|term| matches!(term.pattern, Pattern::Expression(_) | Pattern::Set(_)))
    }

    /// The targets, in the order of the terms, and by name within a term. `list` returns the existing
    /// clusters.
    pub(crate) fn resolve(
        &self,
        sets: &BTreeMap<String, ClusterSet>,
        list: &mut List<'_>,
    ) -> Result<SelectedClusters, SelectionError> {
        let mut resolver = Resolver::new(sets, list, self.from);
        let mut chosen = resolver.choose(&self.terms, self.selector.as_deref(), &self.filter)?;
        chosen.retain(|target| target.name.context().is_none_or(|context| self.contexts.matches(context)));
        if chosen.is_empty() {
            // The list of existing clusters is more helpful than an empty result; without the right
            // to list them it is omitted.
            let known = resolver.known(match self.from {
                Kind::Members => ListOf::Members(None),
                Kind::Contexts => ListOf::Contexts,
            });
            return Err(SelectionError::Nothing { known, from: self.from });
        }
        let chosen = SelectedClusters::new(chosen);
        match chosen.same_name() {
            Some(name) => Err(SelectionError::SameName { name: name.to_owned() }),
            None => Ok(chosen),
        }
    }
}

pub(super) fn parse_terms<S: AsRef<str>>(
    terms: &[S],
    exclude: &[String],
    kind: Kind,
) -> Result<Vec<Term>, Failure> {
    let mut parsed = Vec::new();
    for text in terms {
        parsed.extend(term::parse_list(text.as_ref(), kind)?);
    }
    for text in exclude {
        parsed.extend(term::parse_list(text, kind)?.into_iter().map(Term::excluding));
    }
    Ok(parsed)
}
