//! Defines why the fleet view does not route a request.

use kubectl_mc_api::ClusterName;

/// Why the fleet view does not route a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the path below the fleet {0}")]
    Path(String),
    #[error("the server could not find the requested resource in the fleet: {0}")]
    NotFound(String),
    #[error(
        "the fleet view does not serve paths below /watch/ and /proxy/: use the parameter watch, or clusters/<member>/proxy"
    )]
    Legacy,
    #[error("the request names the members {0} and {1}: name one")]
    TwoMembers(ClusterName, ClusterName),
    #[error(
        "the request must name a member: write the namespace as <namespace>_<member>, or the name of a cluster-scoped object as \
         <name>_<member>"
    )]
    Unqualified,
    #[error("{0}")]
    NotAllowed(&'static str),
    #[error("the field selector {0} {1}")]
    Selector(String, &'static str),
    #[error("the resource version {0:?} is not one of member {1}")]
    ForeignVersion(String, ClusterName),
}
