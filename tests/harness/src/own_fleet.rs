//! Members that a test's own sidecars manage: their Secrets are in a namespace of the test, and the bed's
//! sidecar ignores them.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::api::Api;
use crate::bed::{SYSTEM, host, sidecar};
use crate::http1::SIDECAR_NAME;
use crate::own_sidecar::{Difference, OwnSidecar, names};
use crate::registration::{register_in, secret};
use crate::wait::{SOON, eventually};

/// A namespace for members' Secrets.
pub struct OwnFleet {
    pub namespace: String,
    pub host: Api,
}

/// A condition of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub status: String,
    pub reason: String,
    pub message: String,
}

impl OwnFleet {
    /// Creates the namespace with the rights that a sidecar has in its namespace.
    pub fn new(name: &str) -> Result<Self> {
        let (namespace, host) = (format!("e2e-{name}"), host()?);
        host.apply(
            &format!("/api/v1/namespaces/{namespace}"),
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        )?;
        let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces";
        for kind in ["roles", "rolebindings"] {
            let original = host.get(&format!("{rbac}/{SYSTEM}/{kind}/mc-sidecar"))?;
            let mut own = json!({"metadata": {"name": "mc-sidecar"}});
            for key in ["apiVersion", "kind", "rules", "roleRef", "subjects"] {
                if !original[key].is_null() {
                    own[key] = original[key].clone();
                }
            }
            host.apply(&format!("{rbac}/{namespace}/{kind}/mc-sidecar"), &own)?;
        }
        Ok(Self { namespace, host })
    }

    /// A sidecar of this namespace whose controllers run when it leads, with a short interval between probes.
    pub fn sidecar(&self, flags: &[&str]) -> Result<OwnSidecar> {
        self.sidecar_with(&Difference { flags, ..Difference::default() })
    }

    /// The same with other differences from the bed's.
    pub fn sidecar_with(&self, difference: &Difference<'_>) -> Result<OwnSidecar> {
        let flags = difference.flags;
        let namespace = format!("--namespace={}", self.namespace);
        let own = [namespace.as_str(), "--controllers=*", "--member-monitor-period=200ms"];
        let own = own.into_iter().filter(|flag| !names(flags, flag));
        let all: Vec<_> = own.chain(flags.iter().copied()).collect();
        OwnSidecar::with(&Difference { flags: &all, ..*difference })
    }

    /// A sidecar of this namespace that other replicas authenticate by its certificate, whose files are in
    /// `folder`, and that authenticates them.
    pub fn replica(&self, folder: &Path, flags: &[&str]) -> Result<OwnSidecar> {
        self.replica_with(folder, &Difference { flags, ..Difference::default() })
    }

    /// The same with other differences from the bed's.
    pub fn replica_with(&self, folder: &Path, difference: &Difference<'_>) -> Result<OwnSidecar> {
        let bed = sidecar()?;
        let own_name = format!("mc-sidecar.{}.svc", self.namespace);
        bed.serving_files(&[SIDECAR_NAME, &own_name, "kubectl-mc:peer"], folder, "replica")?;
        let file = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
        let own = [
            file("tls-cert-file", "replica.crt"),
            file("tls-private-key-file", "replica.key"),
            format!("--peer-ca-file={}", bed.ca_certificate.display()),
        ];
        let flags: Vec<_> = own.iter().map(String::as_str).chain(difference.flags.iter().copied()).collect();
        self.sidecar_with(&Difference { flags: &flags, ..*difference })
    }

    /// Registers a member; `data` has its Secret's keys.
    pub fn register(&self, name: &str, data: &Value) -> Result<()> {
        register_in(&self.namespace, name, data)
    }

    /// Creates one of a member's Secrets.
    pub fn secret(&self, name: &str, data: &Value) -> Result<()> {
        secret(&self.namespace, name, data)
    }

    /// The token in a Secret.
    pub fn token(&self, name: &str) -> Result<String> {
        let secret = self.host.get(&format!("/api/v1/namespaces/{}/secrets/{name}", self.namespace))?;
        let token = secret["data"]["token"].as_str().context("no token")?;
        Ok(String::from_utf8(STANDARD.decode(token)?)?)
    }

    /// The MemberCluster.
    pub fn member(&self, name: &str) -> Result<Value> {
        self.host.get(&format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{name}"))
    }

    pub fn condition(&self, name: &str, type_: &str) -> Result<Condition> {
        let member = self.member(name)?;
        let all = member["status"]["conditions"].as_array().context("no conditions yet")?;
        let found = all.iter().find(|condition| condition["type"] == type_);
        let found = found.with_context(|| format!("no {type_}: {}", member["status"]))?;
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        Ok(Condition { status: text("status"), reason: text("reason"), message: text("message") })
    }

    /// Waits until a member's condition has this status and reason.
    pub fn until(&self, name: &str, type_: &str, status: &str, reason: &str) -> Result<Condition> {
        let what = format!("{type_} of {name} is {status}: {reason}");
        eventually(&what, SOON, || {
            let condition = self.condition(name, type_)?;
            ensure!(condition.status == status && condition.reason == reason, "it is {condition}");
            Ok(Some(condition))
        })
    }

    /// The Events on a member: type, reason and note.
    pub fn events(&self, name: &str) -> Result<Vec<(String, String, String)>> {
        let events = self.host.get("/apis/events.k8s.io/v1/namespaces/default/events")?;
        let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let of = |event: &&Value| {
            event["regarding"]["name"] == name && event["regarding"]["kind"] == "MemberCluster"
        };
        let events = events["items"].as_array().context("no list")?.iter().filter(of);
        Ok(events.map(|event| (text(event, "type"), text(event, "reason"), text(event, "note"))).collect())
    }
}

/// A token of a service account with these claims, without a valid signature.
pub fn unsigned_token(claims: &Value) -> String {
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.status, self.reason, self.message)
    }
}
