//! Handles choices that may match more clusters while a command runs: a pattern, a set, labels or all
//! clusters.

use std::collections::BTreeMap;

use http::StatusCode;

use super::choice::Choice;
use super::list::ListOf;
use super::selected_clusters::{SelectedCluster, SelectedClusters};
use super::selection_error::SelectionError;
use crate::cluster::inventory::InventoryError;
use crate::config_file::ClusterSet;
use crate::server_text::ServerText;

/// Such a choice, and the sets that it may reference. It grows by members of the host, not by contexts.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    choice: Choice,
    sets: BTreeMap<String, ClusterSet>,
    contexts: Vec<SelectedCluster>,
}

/// The host's lists of clusters, by label selector.
pub(crate) type Lists = BTreeMap<Option<String>, Vec<SelectedCluster>>;

impl Growth {
    /// Returns `None` for exact names, which never match more. `now` contains the current matches.
    pub(crate) fn new(
        choice: &Choice,
        sets: &BTreeMap<String, ClusterSet>,
        now: &SelectedClusters,
    ) -> Option<Self> {
        let contexts = now.iter().filter(|cluster| cluster.name.context().is_some()).cloned().collect();
        choice.can_grow().then(|| Self { choice: choice.clone(), sets: sets.clone(), contexts })
    }

    /// The clusters that match by these lists; the error is the selector of a missing list.
    pub(crate) fn resolve(&self, lists: &Lists) -> Result<Vec<SelectedCluster>, Option<String>> {
        let mut missing = None;
        let mut list = |from: &ListOf| {
            let ListOf::Members(selector) = from else { return Ok(self.contexts.clone()) };
            let selector = selector.clone();
            lists.get(&selector).cloned().ok_or_else(|| {
                missing = Some(selector);
                InventoryError::Status {
                    host: String::new(),
                    status: StatusCode::NOT_FOUND,
                    message: ServerText::default(),
                }
            })
        };
        let resolved: Result<_, SelectionError> = self.choice.resolve(&self.sets, &mut list);
        match missing {
            Some(selector) => Err(selector),
            // A set or a name that no longer exists matches nothing more.
            None => Ok(resolved.map_or_else(|_| Vec::new(), |all| all.iter().cloned().collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(terms: &[&str], selector: Option<&str>) -> Option<Growth> {
        let choice = Choice::parse(terms, &[], selector, terms.is_empty()).unwrap().unwrap();
        let set = ClusterSet {
            clusters: vec!["eu-*".to_owned()],
            selector: Some("env=prod".to_owned()),
            r#where: None,
        };
        let now = SelectedClusters::new(Vec::new());
        Growth::new(&choice, &BTreeMap::from([("prod".to_owned(), set)]), &now)
    }

    fn clusters(names: &[&str]) -> Vec<SelectedCluster> {
        names.iter().map(|name| SelectedCluster::unlisted(name.parse().unwrap())).collect()
    }

    #[test]
    fn only_a_list_of_names_cannot_grow() {
        assert!(growth(&["m1", "m2"], None).is_none());
        for (terms, selector) in [
            (&["eu-*"][..], None),
            (&["m1", "@prod"], None),
            (&[], None),
            (&["m1,m2"], Some("a=b")),
            (&["!m1"], None),
        ] {
            assert!(growth(terms, selector).is_some(), "{terms:?} {selector:?}");
        }
    }

    #[test]
    fn missing_lists_are_named_until_the_choice_is_resolved() {
        let growth = growth(&["@prod"], None).unwrap();
        let mut lists = Lists::new();
        assert_eq!(growth.resolve(&lists), Err(Some("env=prod".to_owned())));
        lists.insert(Some("env=prod".to_owned()), clusters(&["eu-1", "us-1"]));
        assert_eq!(growth.resolve(&lists), Ok(clusters(&["eu-1"])));
    }
}
