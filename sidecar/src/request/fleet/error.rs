//! Defines why the fleet view does not answer.

use kubectl_mc_api::ClusterName;

use super::failures::Failures;
use crate::fleet::{bodies, items};

/// Why the fleet view does not answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the fleet view is off")]
    Off,
    #[error("too many requests to the whole fleet are in progress, try again")]
    TooMany,
    #[error("only JSON is served for the fleet")]
    NotAcceptable,
    #[error("{0}")]
    Body(#[from] bodies::Error),
    #[error(
        "the object must name a member: write its name, or the namespace that a review asks about, as <name>_<member>"
    )]
    Unnamed,
    #[error("{resource} {name:?} is on the members {}: name one, as in {name}_{}", list_of(.members), .members[0])]
    Several { resource: String, name: String, members: Vec<ClusterName> },
    #[error("{0} is not found on any member")]
    NotFound(String),
    #[error("{0}")]
    Incomplete(Failures),
    #[error("no member allows it: {0}")]
    Forbidden(Failures),
    #[error("the resource version is too old, or of another set of members: list again")]
    Expired,
    #[error("member {0} sent an answer that the fleet view cannot use: {1}")]
    Malformed(ClusterName, items::Error),
}

fn list_of(members: &[ClusterName]) -> String {
    members.iter().map(ClusterName::as_str).collect::<Vec<_>>().join(", ")
}
