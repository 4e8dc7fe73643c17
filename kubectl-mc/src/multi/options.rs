//! Defines the options for several clusters.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::batches::Batches;
use super::rollout::rule::Rollout;
use crate::cli::Color;

/// The options from the flags and the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// Maximum number of parallel clusters; `None` means a default.
    pub(crate) concurrency: Option<NonZeroUsize>,
    /// Timeout of each cluster; zero means no timeout, `None` the default of the command.
    pub(crate) timeout: Option<Duration>,
    /// Roll a change out in batches.
    pub(crate) batches: Option<Batches>,
    pub(crate) pause_on_failure: bool,
    /// How to wait for each batch.
    pub(crate) rollout: Rollout,
    /// Skip the confirmation of a change.
    pub(crate) yes: bool,
    /// Restart a port-forward when its connection is lost.
    pub(crate) keep: bool,
    pub(crate) color: Color,
}

impl Options {
    /// The timeout of each cluster; `ends` means that the command is a read that ends by itself.
    pub(crate) fn timeout(&self, ends: bool) -> Option<Duration> {
        let timeout = self.timeout.or_else(|| ends.then_some(READ_TIMEOUT))?;
        (!timeout.is_zero()).then_some(timeout)
    }
}

/// kubectl gives up on a server after five attempts of this duration.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
