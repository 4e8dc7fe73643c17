//! The reasons why a request about clusters fails.

use kubectl_mc_api::ClusterName;

use crate::identity::authorization;

/// Why a request for the view fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The host has not decided what the caller may see.
    #[error(transparent)]
    Authorization(#[from] authorization::Error),
    /// 503: the host's MemberClusters are not synced yet.
    #[error("the sidecar has not read the list of members yet")]
    NotSynced,
    /// 404
    #[error("clusters.proxy.kubectl-mc.dev {:?} not found", .0.as_str())]
    NotFound(ClusterName),
    /// 400
    #[error("{0}")]
    BadRequest(String),
    /// 410: the changes since that version are no longer known.
    #[error("the resourceVersion or the continue token is too old: list again without it")]
    Expired,
    /// 504 with a retry after a second: another replica, or the host itself, has seen a newer version.
    #[error("Too large resource version: {asked}, current: {current}")]
    TooLargeResourceVersion { asked: u64, current: u64 },
    /// 406
    #[error("only the following media types are accepted: {0}")]
    NotAcceptable(String),
}
