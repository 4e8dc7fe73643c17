//! Reads a cluster's audit log: the member's own record of the callers and the users that they
//! impersonate.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;
use testbed::Cluster;

use crate::wait::{SOON, eventually};

/// A cluster's log, starting at some position.
pub struct AuditLog {
    path: PathBuf,
    begin: u64,
}

impl AuditLog {
    /// All of it.
    pub fn of(cluster: &Cluster) -> Self {
        Self { path: cluster.audit_log.clone(), begin: 0 }
    }

    /// The events from now on.
    pub fn from_now(cluster: &Cluster) -> Result<Self> {
        let path = cluster.audit_log.clone();
        let begin =
            std::fs::metadata(&path).with_context(|| format!("no audit log: {}", path.display()))?.len();
        Ok(Self { path, begin })
    }

    /// The first finished request of the sidecar whose URI contains this; waits for it.
    pub fn request(&self, uri: &str) -> Result<Value> {
        eventually(&format!("the audit log names {uri:?}"), SOON, || {
            Ok(self.requests(uri)?.into_iter().next())
        })
    }

    /// The same with Karmada's account.
    pub fn request_of_karmada(&self, uri: &str) -> Result<Value> {
        eventually(&format!("the audit log names {uri:?}"), SOON, || {
            Ok(self.requests_of(KARMADA, uri)?.into_iter().next())
        })
    }

    /// All finished requests of the sidecar so far whose URI contains this. Requests of the member's
    /// controllers to the same objects do not count.
    pub fn requests(&self, uri: &str) -> Result<Vec<Value>> {
        self.requests_of(IMPERSONATOR, uri)
    }

    fn requests_of(&self, user: &str, uri: &str) -> Result<Vec<Value>> {
        self.find(|event| {
            event["stage"] == "ResponseComplete"
                && event["user"]["username"] == user
                && event["requestURI"].as_str().is_some_and(|other| other.contains(uri))
        })
    }

    /// All events of the sidecar's requests for a subresource in a namespace so far.
    pub fn subresource(&self, namespace: &str, subresource: &str) -> Result<Vec<Value>> {
        self.find(|event| {
            event["user"]["username"] == IMPERSONATOR
                && event["objectRef"]["namespace"] == namespace
                && event["objectRef"]["subresource"] == subresource
        })
    }

    /// All finished requests so far with the token of this ID, long-running ones too.
    pub fn of_credential(&self, id: &str) -> Result<Vec<Value>> {
        let key = "authentication.kubernetes.io/credential-id";
        self.find(|event| {
            event["stage"] == "ResponseComplete" && event["user"]["extra"][key][0] == format!("JTI={id}")
        })
    }

    fn find(&self, wanted: impl Fn(&Value) -> bool) -> Result<Vec<Value>> {
        let mut file =
            File::open(&self.path).with_context(|| format!("no audit log: {}", self.path.display()))?;
        file.seek(SeekFrom::Start(self.begin))?;
        let mut found = Vec::new();
        for line in BufReader::new(file).lines() {
            // The last line may be half written.
            if let Ok(event) = serde_json::from_str::<Value>(&line?)
                && wanted(&event)
            {
                found.push(event);
            }
        }
        Ok(found)
    }
}

/// The user that the member regards as the caller: `impersonatedUser`, with its groups sorted.
pub fn impersonated(event: &Value) -> Value {
    let mut user = event["impersonatedUser"].clone();
    if let Some(groups) = user["groups"].as_array_mut() {
        groups.sort_by_key(ToString::to_string);
    }
    user
}

/// The sidecar's user at a member.
const IMPERSONATOR: &str = "system:serviceaccount:kubectl-mc-system:kubectl-mc-impersonator";
/// The sidecar's user at a member of Karmada.
pub const KARMADA: &str = "system:serviceaccount:karmada-cluster:karmada-impersonator";
