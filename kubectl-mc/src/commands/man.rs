//! Writes the manual pages for packages: `kubectl-mc __man FOLDER` writes one for the plugin and one for each
//! verb (man-pages(7)).

use std::ffi::OsString;
use std::path::PathBuf;

use super::builtin;
use crate::error::{Explain, Failure};
use crate::exit::ExitStatus;

/// Hidden, because users of the plugin have `--help`.
pub(super) const VERB: &str = "__man";

/// Writes the pages into the given folder.
pub(super) fn write(arguments: &[OsString]) -> Result<ExitStatus, Failure> {
    let [_, folder] = arguments else { return Err(ManError::NoFolder.into()) };
    let folder = PathBuf::from(folder);
    let written = std::fs::create_dir_all(&folder)
        .and_then(|()| clap_mangen::generate_to(builtin::parser().name("kubectl-mc"), &folder));
    written.map_err(|source| ManError::Write { folder, source })?;
    Ok(ExitStatus::Success)
}

#[derive(Debug, thiserror::Error)]
enum ManError {
    #[error("__man takes the folder for the manual pages, and nothing else")]
    NoFolder,
    #[error("cannot write manual pages into {}", folder.display())]
    Write { folder: PathBuf, source: std::io::Error },
}

impl Explain for ManError {
    fn status(&self) -> ExitStatus {
        match self {
            Self::NoFolder => ExitStatus::Usage,
            Self::Write { .. } => ExitStatus::Failed,
        }
    }
}
