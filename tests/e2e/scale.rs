//! The sidecar serves many clients at once, withstands hostile ones, and runs for a long time.

pub(crate) mod bounds;
mod crowds;
mod hostile;
mod paused;
pub(crate) mod soak;
