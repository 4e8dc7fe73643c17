//! What the sidecar answers by itself.

pub mod clusters;
pub mod discovery;
