//! Describes how the hubs of other projects serve their clusters: the path of a cluster's API below the hub's
//! server, and the path of the list of clusters. Only these paths and the reading of the listed objects
//! ([`View`]) differ between hubs.
//!
//! Names and ids in a hub's list come from the hub. A value that is not one plain path segment (RFC 3986,
//! 3.3) is refused, so an object of a hub cannot direct a request out of the hub's proxy.

mod kind;
mod profile;
mod segment;
mod template;
mod view;

pub use kind::{Dialect, InvalidDialect, Resource};
pub use profile::{NotHere, on_host};
pub use segment::{InvalidSegment, Segment};
pub use template::{InvalidTemplate, OtherServer, Template};
pub use view::{Unusable, View};

#[cfg(test)]
mod tests;
