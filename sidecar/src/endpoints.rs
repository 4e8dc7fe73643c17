//! What the sidecar answers by itself.

pub mod authorize;
pub mod clusters;
pub mod discovery;
