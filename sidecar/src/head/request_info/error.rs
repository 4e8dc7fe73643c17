//! Defines why a request's head is refused.

use http::Method;
use kubectl_mc_api::InvalidClusterName;

use super::fleet::error::Error as FleetError;
use crate::head::protocol::NotAllowed;

/// Why a request's head is invalid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the server could not find the requested resource: {0}")]
    NotFound(String),
    #[error(transparent)]
    Cluster(#[from] InvalidClusterName),
    #[error("the path below the member {0}")]
    MemberPath(&'static str),
    #[error("the method {0} is not allowed here")]
    Method(Method),
    #[error("ambiguous request: {0}")]
    Framing(&'static str),
    #[error(transparent)]
    Upgrade(#[from] NotAllowed),
    #[error(transparent)]
    Fleet(#[from] FleetError),
}
