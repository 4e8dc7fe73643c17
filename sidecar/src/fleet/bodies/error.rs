//! Tells why the body of a request to the fleet view cannot be sent to a member.

use kubectl_mc_api::ClusterName;
use kubectl_mc_api::fleet::references::Refused;

/// Why a body cannot be sent to a member.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the fleet view cannot read a body that is {0}; send JSON, or use the member's own path")]
    Format(String),
    #[error("the body is larger than 3 MiB")]
    TooLarge,
    #[error("the body has more than 100000 values")]
    TooManyValues,
    #[error("the body ended early")]
    Broken,
    #[error("the body is not JSON: {0}")]
    Json(serde_json::Error),
    #[error("the body is no JSON patch: {0}")]
    JsonPatch(String),
    #[error("the body is no object in Kubernetes' protobuf format: {0}")]
    Protobuf(&'static str),
    #[error(
        "the body has the suffix _{0}, and the fleet view does not know the fields of this type in protobuf; \
         send JSON, as kubectl apply does"
    )]
    UnknownReference(ClusterName),
    #[error(transparent)]
    Refused(#[from] Refused),
}
