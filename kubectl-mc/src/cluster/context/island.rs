//! A context that is independent of other kubeconfig files.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Failure;

/// The origin of a context that is independent of other files.
#[derive(Clone, Debug)]
pub(crate) struct Island {
    /// The values of `--kubeconfig-dir`.
    pub(crate) dirs: Arc<[PathBuf]>,
    /// Why the file or its context cannot be used.
    pub(super) unusable: Option<String>,
}

impl Island {
    /// Why the context cannot be used.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.unusable.clone().map_or(Ok(()), |reason| {
            Err(Failure::usage(reason)
                .with_hint("mend the file, or leave it out: --exclude=NAME, or a glob for --kubeconfig-dir"))
        })
    }
}
