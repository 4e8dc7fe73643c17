//! What `/metrics` tells of logins that failed.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::CredentialKinds;

/// Failed authentication attempts by kind of credential.
#[derive(Debug, Default)]
pub struct Failures(Family<Labels, Counter>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    attempted: CredentialKinds,
}

impl Failures {
    pub fn register(registry: &mut Registry) -> Self {
        let failures = Self::default();
        registry.register(
            "authentication_failures",
            "Failed authentication attempts by kind of credential",
            failures.0.clone(),
        );
        failures
    }

    pub(super) fn count(&self, attempted: CredentialKinds) {
        self.0.get_or_create(&Labels { attempted }).inc();
    }
}
