//! Endpoints that the sidecar answers itself, without a member.

pub mod admission;
pub mod authorize;
pub mod clusters;
pub mod discovery;
