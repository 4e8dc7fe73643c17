//! Many clients at once, hostile clients, and long runs.

pub(crate) mod bounds;
mod crowds;
mod hostile;
pub(crate) mod soak;
mod stalled_watches;
