//! The failure to render a manifest.

/// Invalid values, or an invalid manifest, which is a defect of this program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Values(String),
    #[error("a manifest is not YAML: {0}")]
    Yaml(String),
    #[error("a manifest is empty")]
    Empty,
}
