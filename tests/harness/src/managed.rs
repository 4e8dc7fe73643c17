//! A member as in production: prepared by `sidecar/deploy/member.yaml`, with a manager account, so that the
//! sidecar's controllers manage it. All tests that need one share it.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use testbed::Cluster;

use crate::api::Api;
use crate::bed::{SYSTEM, host, spare};
use crate::registration::{register_in, secret};
use crate::tool::Tool;
use crate::wait::{SOON, eventually};

/// The member, and its two accounts' tokens.
pub struct Managed {
    pub name: &'static str,
    pub cluster: &'static Cluster,
    pub api: Api,
    pub impersonator: String,
    pub manager: String,
}

/// The member, registered and prepared.
pub fn managed() -> Result<&'static Managed> {
    static MANAGED: OnceLock<Result<Managed, String>> = OnceLock::new();
    let made = MANAGED.get_or_init(|| make().map_err(|error| format!("{error:#}")));
    made.as_ref().map_err(|error| anyhow!("{error}"))
}

fn make() -> Result<Managed> {
    let managed = Managed::prepare(NAME, spare(NAME)?, SYSTEM)?;
    // A test of an earlier process may have left a setting.
    host()?.merge(&member_cluster(), &json!({"spec": {"impersonation": null}}))?;
    eventually("the member's rights are in step", SOON, || {
        let condition = condition()?;
        ensure!(condition["status"] == "True", "AuthSynced is {condition}");
        Ok(Some(()))
    })?;
    Ok(managed)
}

impl Managed {
    /// Prepares a cluster and registers it under this name, with its Secrets in this namespace of the host.
    pub fn prepare(name: &'static str, cluster: &'static Cluster, namespace: &str) -> Result<Self> {
        apply_manifest(cluster)?;
        let api = Api::admin(cluster)?;
        let impersonator = token(&api, "kubectl-mc-impersonator")?;
        let manager = token(&api, "kubectl-mc-manager")?;
        policy_in_force(&Api::bearer(cluster, &manager)?)?;
        let ca = std::fs::read_to_string(&cluster.ca_certificate)?;
        let data = |token: &str| json!({"server": cluster.server, "ca.crt": ca, "token": token});
        secret(namespace, &format!("{name}.manager"), &data(&manager))?;
        register_in(namespace, name, &data(&impersonator))?;
        Ok(Self { name, cluster, api, impersonator, manager })
    }

    /// Restores what [`Self::prepare`] created on the member and a test has changed.
    pub fn prepare_anew(&self) -> Result<()> {
        apply_manifest(self.cluster)
    }

    /// Whether the sidecar may impersonate this on the member. It is the impersonator's right, in
    /// the terms of RBAC.
    pub fn may_be(&self, attributes: &Value) -> Result<bool> {
        lets_be(&self.api, attributes)
    }

    pub fn may_be_user(&self, name: &str) -> Result<bool> {
        lets_be_user(&self.api, name)
    }

    pub fn may_be_in(&self, group: &str) -> Result<bool> {
        self.may_be(&json!({"resource": "groups", "name": group}))
    }

    pub fn may_be_account(&self, namespace: &str, name: &str) -> Result<bool> {
        self.may_be(&json!({"resource": "serviceaccounts", "namespace": namespace, "name": name}))
    }

    /// A client with the manager's stolen token.
    pub fn thief_of_manager(&self) -> Result<Api> {
        Api::bearer(self.cluster, &self.manager)
    }

    /// A client with the impersonator's stolen token.
    pub fn thief_of_impersonator(&self) -> Result<Api> {
        Api::bearer(self.cluster, &self.impersonator)
    }
}

/// Whether a member lets the sidecar impersonate this user.
pub fn lets_be_user(member: &Api, name: &str) -> Result<bool> {
    lets_be(member, &json!({"resource": "users", "name": name}))
}

/// Whether a member lets the sidecar impersonate this.
pub fn lets_be(member: &Api, attributes: &Value) -> Result<bool> {
    let mut attributes = attributes.clone();
    attributes["verb"] = "impersonate".into();
    member.may(IMPERSONATOR, &[], &attributes)
}

/// The condition AuthSynced as the host shows it.
pub fn condition() -> Result<Value> {
    let member = host()?.get(&member_cluster())?;
    let conditions = member["status"]["conditions"].as_array().cloned().unwrap_or_default();
    Ok(conditions.into_iter().find(|condition| condition["type"] == "AuthSynced").unwrap_or_default())
}

fn member_cluster() -> String {
    format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{NAME}")
}

/// Applies the manifest and so undoes all changes that tests made, in this process or an earlier
/// one.
fn apply_manifest(cluster: &Cluster) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sidecar/deploy/member.yaml");
    let path = path.to_str().context("the path is no text")?;
    let member = Tool::admin(cluster)?;
    member.ok(&["apply", "--server-side", "--force-conflicts", "-f", path])?;
    // A join reads the audiences from the first token.
    let accounts = format!("/api/v1/namespaces/{SYSTEM}/serviceaccounts");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = Api::admin(cluster)?.create(&format!("{accounts}/kubectl-mc-manager/token"), &request)?;
    let audiences = json!({"spec": {"variables": [
        {"name": "audiences", "expression": answer["spec"]["audiences"].to_string()},
    ]}});
    let policy = ["validatingadmissionpolicy", "kubectl-mc-manager-tokens", "--patch"];
    member.ok(&[&["patch"], &policy[..], &[&audiences.to_string()]].concat()).map(drop)
}

/// A kube-apiserver takes a moment to enforce a new policy.
fn policy_in_force(manager: &Api) -> Result<()> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "kubectl-mc-impersonator"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/kubectl-mc-impersonator";
    eventually("the member's policy is in force", SOON, || {
        let answer = manager.request(
            "PATCH",
            &format!("{path}?fieldManager=e2e&force=true&dryRun=All"),
            "application/apply-patch+yaml",
            &role.to_string(),
        )?;
        Ok((answer.status() == 403).then_some(()))
    })
}

/// A token of one of our accounts that outlives any test.
fn token(api: &Api, account: &str) -> Result<String> {
    let path = format!("/api/v1/namespaces/{SYSTEM}/serviceaccounts/{account}/token");
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400},
    });
    let answer = api.create(&path, &request)?;
    Ok(answer["status"]["token"].as_str().context("a TokenRequest without a token")?.to_owned())
}

const NAME: &str = "a1";
/// The sidecar's user at a member.
const IMPERSONATOR: &str = "system:serviceaccount:kubectl-mc-system:kubectl-mc-impersonator";
