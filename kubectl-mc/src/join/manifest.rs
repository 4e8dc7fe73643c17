//! Reads the objects of `sidecar/deploy/member.yaml` and `sidecar/deploy/enrollment.yaml`, and the definitions
//! of the registry.

use kubectl_mc_api::manifests::{ENROLLMENT, MEMBER, Parameters};
use serde_json::Value;

use crate::error::Failure;

/// The objects of a member, in the order of application.
pub(crate) fn member() -> Result<Vec<Value>, Failure> {
    parse(MEMBER)
}

/// The additional objects until the agent has enrolled, in the order of application.
pub(crate) fn enrollment() -> Result<Vec<Value>, Failure> {
    parse(ENROLLMENT)
}

/// The definitions of the registry on the host, as an installation applies them.
pub(crate) fn definitions() -> Result<Vec<Value>, Failure> {
    Parameters::new(String::new()).definitions().map_err(unreadable)
}

fn unreadable(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("a built-in manifest cannot be read: {error}"))
}

fn parse(text: &str) -> Result<Vec<Value>, Failure> {
    serde_saphyr::from_multiple(text).map_err(unreadable)
}

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
