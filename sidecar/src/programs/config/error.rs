//! The reasons why a flag is refused.

use std::path::Path;

/// A flag has an invalid value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("--{0}")]
    Flag(String),
}

/// The content of a file that a flag names.
pub(super) fn read(flag: &str, file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file)
        .map_err(|error| Error::Flag(format!("{flag}: cannot read {}: {error}", file.display())))
}
