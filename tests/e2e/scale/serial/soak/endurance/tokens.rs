//! Renews the token for a member repeatedly. Each token is bound to an object, and becomes invalid
//! without it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use harness::bed::{SYSTEM, host};
use harness::scene::Scene;
use serde_json::json;

use super::{MEMBER, Tally, add};

pub(super) struct Tokens<'a> {
    pub(super) scene: &'a Scene,
}

impl Tokens<'_> {
    /// Issues a new token.
    pub(super) fn issue(&self, number: u64) -> Result<String> {
        let api = &self.scene.api;
        let bound = api.apply(
            &object(number),
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name(number)}, "type": "Opaque"}),
        )?;
        let reference = json!({
            "apiVersion": "v1", "kind": "Secret", "name": name(number), "uid": bound["metadata"]["uid"],
        });
        let answer = api.create(
            &format!("/api/v1/namespaces/{SYSTEM}/serviceaccounts/kubectl-mc-impersonator/token"),
            &json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                "spec": {"boundObjectRef": reference},
            }),
        )?;
        Ok(answer["status"]["token"].as_str().context("no token")?.to_owned())
    }

    /// Writes a new token into the member's Secret at this interval, and makes the old one invalid soon
    /// after.
    pub(super) fn renew(&self, every: Duration, tally: &Tally) {
        for number in 1.. {
            tally.wait_until(tally.begin + every * u32::try_from(number).unwrap_or(u32::MAX));
            if tally.is_over() {
                return;
            }
            let renewed = self.issue(number).and_then(|token| put(&token));
            tally.wait_until(Instant::now() + OVERLAP.min(every / 2));
            let voided = renewed.and_then(|()| self.scene.api.delete(&object(number - 1)));
            if tally.judge("a new token", voided).is_some() {
                add(&tally.renewed);
            }
        }
    }
}

fn put(token: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{SYSTEM}/secrets/{MEMBER}.member");
    let patch = json!({"stringData": {"token": token}}).to_string();
    let answer = host()?.request("PATCH", &path, "application/merge-patch+json", &patch)?;
    (answer.status() == 200).then_some(()).with_context(|| answer.text())
}

fn name(number: u64) -> String {
    format!("e2e-endurance-{number}")
}

fn object(number: u64) -> String {
    format!("/api/v1/namespaces/{SYSTEM}/secrets/{}", name(number))
}

/// The time for which both tokens are valid. A kube-apiserver may take ten seconds more to notice the end of
/// one.
const OVERLAP: Duration = Duration::from_secs(5);
