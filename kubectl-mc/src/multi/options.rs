//! The options for several clusters.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::Batches;
use crate::cli::Color;

/// What the flags and the configuration say of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// At how many clusters at once; none is the default of what does the work.
    pub(crate) concurrency: Option<NonZeroUsize>,
    /// How long each cluster has; zero is without end, none is the default of the command.
    pub(crate) timeout: Option<Duration>,
    /// Change the clusters in turns.
    pub(crate) batches: Option<Batches>,
    pub(crate) pause_on_failure: bool,
    /// Do not ask before a change.
    pub(crate) yes: bool,
    /// Begin a port-forward again when its connection is lost.
    pub(crate) keep: bool,
    pub(crate) color: Color,
}

impl Options {
    /// How long each cluster has; `ends` says that the command is a read that ends by itself.
    pub(crate) fn timeout(&self, ends: bool) -> Option<Duration> {
        let timeout = self.timeout.or_else(|| ends.then_some(READ_TIMEOUT))?;
        (!timeout.is_zero()).then_some(timeout)
    }
}

/// kubectl gives up on a server after as long, five times over.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
