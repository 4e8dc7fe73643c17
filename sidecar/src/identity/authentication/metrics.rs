//! Counts authentication attempts by result, and failed attempts by kind of credential.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::credential_kinds::CredentialKinds;
use super::outcome::{Authenticated, Failed};
use crate::identity::attempts::Attempts;
use crate::observe::metrics::{Labels, PlainCounter, own};

/// Attempts to authenticate.
#[derive(Debug)]
pub struct Metrics {
    success: Attempts<PlainCounter>,
    failure: Attempts<PlainCounter>,
    error: Attempts<PlainCounter>,
    failures: Family<Labels<1, CredentialKinds>, Counter>,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let results = ["success", "failure", "error"];
        let [success, failure, error] = Attempts::register("authentication", results, registry);
        let failures = Family::default();
        own(registry).register(
            "authentication_failures",
            "Failed authentication attempts by kind of credential",
            failures.clone(),
        );
        Self { success, failure, error, failures }
    }

    pub(super) fn ended(&self, result: &Result<Authenticated, Failed>, took: Duration) {
        let attempts = match result {
            Ok(_) => &self.success,
            Err(failed) => {
                self.failures.get_or_create(&[("attempted", failed.attempted)]).inc();
                if failed.error.is_refusal() { &self.failure } else { &self.error }
            }
        };
        attempts.took(took).inc();
    }
}
