//! Whether a host restricts agents to their own clusters, for `kubectl mc doctor`: a few requests where `verify` sends
//! hundreds.

use kubectl_mc_api::ownership::subject;
use serde_json::json;

use super::verify::{REVIEWS, missing_policies, registered, review_of};
use super::{admission, objects};
use crate::error::Failure;
use crate::join::side::Side;

/// What the host has of Cluster Authorization.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Restriction {
    /// Nothing, or the caller may not read it.
    Absent,
    InForce,
    Broken(String),
}

impl Restriction {
    pub(crate) async fn of(host: &Side) -> Self {
        read(host).await.unwrap_or(Self::Absent)
    }
}

async fn read(host: &Side) -> Result<Restriction, Failure> {
    let missing = missing_policies(host).await?;
    if missing.is_everything {
        return Ok(Restriction::Absent);
    }
    if !missing.objects.is_empty() {
        return Ok(Restriction::Broken(format!("the host has no {}", missing.objects.join(", no "))));
    }
    let bundle = objects::ca_bundle(host).await?;
    for (kind, name) in [
        ("validatingwebhookconfigurations", admission::ENROLLMENT),
        ("mutatingwebhookconfigurations", admission::OWNER),
    ] {
        let found = registered(host, kind, name).await?;
        if let Some(fault) = found.and_then(|found| admission::fault(&found, bundle.as_deref())) {
            return Ok(Restriction::Broken(format!("{kind}/{name}: {fault}")));
        }
    }
    let attributes = json!({
        "verb": "patch", "group": "cluster.karmada.io", "version": "*", "resource": "clusters", "name": OTHER,
    });
    let review = review_of(&subject::user(AGENT), &attributes);
    if host.create(REVIEWS, &review).await?["status"]["allowed"] == true {
        return Ok(Restriction::Broken("agents may patch the Cluster objects of other clusters".to_owned()));
    }
    Ok(Restriction::InForce)
}

/// Clusters that need not exist: no right to all objects excludes their names.
const AGENT: &str = "kubectl-mc-doctor";
const OTHER: &str = "kubectl-mc-doctor-other";
