//! Reads the objects of `sidecar/deploy/member.yaml` and `sidecar/deploy/enrollment.yaml`, and the definitions
//! of the registry.

use kubectl_mc_api::manifests::{ENROLLMENT, MEMBER, Parameters};
use serde_json::Value;

use crate::error::Explain;

/// The objects of a member, in the order of application.
pub(crate) fn member() -> Result<Vec<Value>, Unreadable> {
    parse(MEMBER)
}

/// The additional objects until the agent has enrolled, in the order of application.
pub(crate) fn enrollment() -> Result<Vec<Value>, Unreadable> {
    parse(ENROLLMENT)
}

/// The definitions of the registry on the host, as an installation applies them.
pub(crate) fn definitions() -> Result<Vec<Value>, Unreadable> {
    Parameters::new(String::new()).definitions().map_err(|error| Unreadable(error.to_string()))
}

fn parse(text: &str) -> Result<Vec<Value>, Unreadable> {
    serde_saphyr::from_multiple(text).map_err(|error| Unreadable(error.to_string()))
}

#[derive(Debug, thiserror::Error)]
#[error("a built-in manifest cannot be read: {0}")]
pub(crate) struct Unreadable(String);

impl Explain for Unreadable {}

#[cfg(test)]
mod tests {
    use super::*;
    use kubectl_mc_api::names::IMPERSONATOR;

    #[test]
    fn manifest_has_the_account_whose_tokens_join_requests() {
        let objects = member().unwrap();
        let account = |object: &&Value| {
            object["kind"] == "ServiceAccount" && object["metadata"]["name"] == IMPERSONATOR
        };
        assert!(objects.iter().any(|object| account(&object)));
    }
}
