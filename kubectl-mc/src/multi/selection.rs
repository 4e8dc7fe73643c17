//! Resolves the choice of clusters (`--cluster`, sets, exclusions, labels, fields) to an ordered list of
//! targets: members of the host and contexts of the kubeconfig. Exact member names do not need the host's
//! list, nor the right to read it.

mod choice;
mod context_filter;
mod field_filter;
mod growth;
mod list;
mod picker;
mod resolver;
mod selected_clusters;
mod selection_error;
mod term;

pub(crate) use choice::Choice;
pub(crate) use context_filter::ContextFilter;
pub(crate) use field_filter::FieldFilter;
pub(crate) use growth::{Growth, Lists};
pub(crate) use list::{List, ListOf, members_only};
pub(crate) use picker::{Picked, pick};
pub(crate) use selected_clusters::{Readiness, SelectedCluster, SelectedClusters};
pub(crate) use selection_error::{SelectionError, what_there_is};
pub(crate) use term::{Kind, expression_error, selects_context};

#[cfg(test)]
mod tests;
