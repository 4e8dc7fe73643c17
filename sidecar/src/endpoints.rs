//! What the sidecar answers by itself.

pub mod admission;
pub mod authorize;
pub mod clusters;
pub mod discovery;
