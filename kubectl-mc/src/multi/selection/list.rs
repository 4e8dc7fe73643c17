//! The lists of clusters from which a choice selects.

use super::selected_clusters::SelectedCluster;
use crate::cluster::inventory::InventoryError;

/// The requested list of clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ListOf {
    /// The host's members, optionally filtered by a label selector.
    Members(Option<String>),
    /// The contexts of the kubeconfig.
    Contexts,
}

/// Lists the existing clusters.
pub(crate) type List<'a> = dyn FnMut(&ListOf) -> Result<Vec<SelectedCluster>, InventoryError> + 'a;

/// The list for a command that works only on members; selecting contexts is an error.
pub(crate) fn members_only(
    mut list: impl FnMut(Option<&str>) -> Result<Vec<SelectedCluster>, InventoryError>,
) -> impl FnMut(&ListOf) -> Result<Vec<SelectedCluster>, InventoryError> {
    move |from| match from {
        ListOf::Members(selector) => list(selector.as_deref()),
        ListOf::Contexts => Err(InventoryError::MembersOnly),
    }
}
