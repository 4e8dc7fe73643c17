//! Determines whether a host restricts agents to their own clusters, for `kubectl mc doctor`. This
//! needs a few requests, while `verify` sends hundreds.

use kubectl_mc_api::ownership::{Layout, subject};
use serde_json::json;

use super::requests::{REVIEWS, registered, review_of};
use super::{admission, compare, objects, policies};
use crate::cluster::connection::Connection;
use crate::error::Failure;

/// The state of Cluster Authorization on the host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Restriction {
    /// It is not configured, or the caller may not read it.
    Absent,
    InForce,
    Broken(String),
}

impl Restriction {
    pub(crate) async fn of(host: &Connection) -> Self {
        read(host).await.unwrap_or(Self::Absent)
    }
}

async fn read(host: &Connection) -> Result<Restriction, Failure> {
    let policies = policies::judging(&Layout::default());
    let mut faults = compare::faults(host, &policies).await?;
    if faults.len() == policies.len() && faults.iter().all(|fault| fault.is_absent) {
        return Ok(Restriction::Absent);
    }
    // A policy depends on the flags of `apply`, which are not known here. A binding does not.
    faults.retain(|fault| fault.is_absent || fault.is_of_binding);
    let faults: Vec<_> = faults
        .iter()
        .map(|fault| match fault.is_absent {
            true => format!("the host has no {}", fault.object),
            false => format!("{}: {}", fault.object, fault.reason),
        })
        .collect();
    if !faults.is_empty() {
        return Ok(Restriction::Broken(faults.join(", ")));
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

/// These clusters need not exist: a right to all objects includes their names.
const AGENT: &str = "kubectl-mc-doctor";
const OTHER: &str = "kubectl-mc-doctor-other";
