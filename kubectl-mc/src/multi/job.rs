//! A command and its clusters, shared by all ways of running it.

use std::sync::Arc;

use super::options::Options;
use super::shape::parses_output;
use crate::argv::Scanned;
use crate::cluster::reach::Reach;
use crate::env::Env;
use crate::kubectl::verb::Effect;
use crate::multi::selection::{Growth, SelectedClusters};
use crate::printer::Printer;

/// A command and its clusters.
pub(crate) struct Job<'a> {
    /// The arguments of kubectl.
    pub(crate) scanned: &'a Scanned,
    pub(crate) reach: &'a Reach,
    pub(crate) targets: &'a SelectedClusters,
    /// The choice of the targets, if it may match more clusters later.
    pub(crate) growth: Option<&'a Growth>,
    pub(crate) options: &'a Options,
    pub(crate) env: &'a Env,
    pub(crate) printer: &'a Printer,
    pub(crate) effect: Effect,
    /// The standard input for each cluster.
    pub(crate) input: Option<Arc<[u8]>>,
}

impl Job<'_> {
    /// Whether kubectl's output is parsed and not only forwarded.
    pub(super) fn parses_output(&self) -> bool {
        parses_output(self.scanned)
    }
}
