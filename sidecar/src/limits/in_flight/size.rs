//! The size of a bound, and the used part of it.

use serde::Serialize;

use super::level::Shares;

/// The size of a bound.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Maximum number in flight at once; 0 means no limit.
    pub places: usize,
    /// How many of them one caller may hold while no other caller holds any.
    pub share: usize,
    /// How many requests of one caller may wait for a seat.
    pub queued_per_caller: usize,
    /// The shares of the priority levels. Without them all callers are equal.
    pub levels: Option<Shares>,
}

impl Size {
    /// A quarter of the seats is left to other callers, except where a quarter is less than one seat.
    pub const fn new(places: usize, queued_per_caller: usize) -> Self {
        Self { places, share: places - places / 4, queued_per_caller, levels: None }
    }

    /// Seats for which no request is queued, because they may be held for hours.
    pub const fn without_queue(places: usize) -> Self {
        Self::new(places, 0)
    }

    /// Sets another share for each caller.
    pub const fn with_share(self, share: usize) -> Self {
        Self { share, ..self }
    }

    /// Adds seats for each priority level.
    pub const fn with_levels(self, shares: Shares) -> Self {
        Self { levels: Some(shares), ..self }
    }
}

/// The used part of a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub in_use: usize,
    pub waiting: usize,
    /// The size of the bound; 0 means no limit.
    pub limit: usize,
}
