//! Which clusters are meant: label and field selectors, as apimachinery reads them
//! (`labels/selector.go`, `fields/selector.go`).

use std::collections::BTreeMap;

use super::object::Cluster;
use crate::request::field_selector::FieldSelector;

mod label;

pub(super) use label::LabelSelector;

/// Both selectors of a request; what neither restricts is everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub(super) labels: LabelSelector,
    pub(super) fields: FieldSelector,
}

impl Selection {
    pub(super) fn matches(&self, cluster: &Cluster) -> bool {
        self.fields.matches(cluster.name()) && self.labels.matches(&cluster.object.metadata.labels)
    }

    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

type Labels = BTreeMap<String, String>;
