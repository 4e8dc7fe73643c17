//! Combines label and field selectors, parsed as in apimachinery (`labels/selector.go`,
//! `fields/selector.go`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::vec;

use kubectl_mc_api::Origin;

use super::object::Cluster;
use super::registry::Snapshot;
use super::visibility::Visible;
use crate::head::field_selector::FieldSelector;

mod label;

pub(super) use label::LabelSelector;

/// The selectors of a request, and the clusters that the caller may see. By default everything matches.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub(super) labels: LabelSelector,
    pub(super) fields: FieldSelector,
    pub(super) visible: Visible,
}

impl Selection {
    pub(super) fn matches(&self, cluster: &Cluster) -> bool {
        self.visible.has(cluster.name())
            && self.fields.matches(cluster.name())
            && self.labels.matches(&cluster.object.metadata.labels)
    }

    /// The names and inventories of the clusters that match the field selector. Only these need an access review.
    pub(super) fn names(&self, snapshot: &Snapshot) -> vec::IntoIter<(Arc<str>, Origin)> {
        let clusters = snapshot.clusters.iter().filter(|(name, _)| self.fields.matches(name));
        clusters.map(|(name, cluster)| (name.clone(), cluster.origin())).collect::<Vec<_>>().into_iter()
    }

    pub(super) fn is_everything(&self) -> bool {
        self.visible == Visible::All && self.labels.is_empty() && self.fields.is_empty()
    }
}

type Labels = BTreeMap<String, String>;
