//! A merged read, admitted and authorized.

use http::HeaderMap;

use super::ask::Asker;
use super::members::Members;
use crate::head::request_info::fleet::FleetRoute;
use crate::request::record::Record;

/// What the answer of a merged read needs.
pub(super) struct Read {
    pub(super) route: FleetRoute,
    pub(super) query: Option<String>,
    pub(super) headers: HeaderMap,
    pub(super) members: Members,
    pub(super) asker: Asker,
    pub(super) record: Record,
}
