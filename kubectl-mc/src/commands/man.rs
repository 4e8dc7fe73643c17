//! Writes the manual pages for packages: `kubectl-mc __man FOLDER` writes one for the plugin and one for each
//! verb (man-pages(7)).

use std::ffi::OsString;
use std::path::PathBuf;

use super::builtin;
use crate::error::{Context, Failure};
use crate::exit::ExitStatus;

/// Hidden, because users of the plugin have `--help`.
pub(super) const VERB: &str = "__man";

/// Writes the pages into the given folder.
pub(super) fn write(arguments: &[OsString]) -> Result<ExitStatus, Failure> {
    let [_, folder] = arguments else {
        return Err(Failure::usage("__man takes the folder for the manual pages, and nothing else"));
    };
    let folder = PathBuf::from(folder);
    let written = std::fs::create_dir_all(&folder)
        .and_then(|()| clap_mangen::generate_to(builtin::parser().name("kubectl-mc"), &folder));
    written.context(|| format!("cannot write manual pages into {}", folder.display()))?;
    Ok(ExitStatus::Success)
}
