//! The sidecar serves many clients at once, withstands hostile ones, and runs for a long time.

pub(crate) mod bounds;
mod crowds;
mod hostile;
pub(crate) mod soak;
mod stalled_watches;
