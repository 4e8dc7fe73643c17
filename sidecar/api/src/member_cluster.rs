//! Defines the custom resource `MemberCluster`, the registry of members on the host. A member's connection
//! and credential are not in it but in the Secret `<name>.member` in the sidecar's namespace.

use std::time::Duration;

use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A cluster that is reached through this host.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "fleet.kubectl-mc.dev",
    version = "v1alpha1",
    kind = "MemberCluster",
    plural = "memberclusters",
    shortname = "mcl",
    status = "MemberClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A cluster that is reached through this host. Its connection and credential are the Secret <name>.member in the sidecar's namespace.",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".status.version"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","priority":1,"jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Server","type":"string","priority":1,"jsonPath":".status.server"}"#,
    printcolumn = r#"{"name":"Connected","type":"string","priority":1,"jsonPath":".status.conditions[?(@.type==\"Connected\")].status"}"#,
    printcolumn = r#"{"name":"Last Seen","type":"date","priority":1,"jsonPath":".status.lastSeen"}"#,
    printcolumn = r#"{"name":"Inventory","type":"string","priority":1,"jsonPath":".metadata.labels.fleet\\.kubectl-mc\\.dev/inventory"}"#,
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63").message("a cluster's name must be a DNS label")
)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterSpec {
    /// How the caller's identity is passed to the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impersonation: Option<Impersonation>,
}

/// How the caller's identity is passed to the member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Impersonation {
    /// Whether the caller's uid is passed on.
    #[serde(default)]
    pub uid: Forwarding,
    /// Whether the caller's extra is passed on.
    #[serde(default)]
    pub extra: Forwarding,
    /// Whether the member's role names every user that may be impersonated there.
    #[serde(default)]
    pub users: Users,
    /// Under which name the host's service accounts act on the member.
    #[serde(default, rename = "serviceAccounts")]
    pub service_accounts: ServiceAccounts,
    /// Additional users, groups and service accounts that the sidecar may impersonate on the member: for
    /// hosts that authorize by other means as well, which cannot be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "subjects_schema::<Option<Vec<Subject>>>")]
    pub subjects: Option<Vec<Subject>>,
}

/// How an identity is passed to the member: the parts in addition to the user and the groups, and the names of
/// service accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    pub uid: Forwarding,
    pub extra: Forwarding,
    pub service_accounts: ServiceAccounts,
}

/// Whether a part of the caller's identity is passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Forwarding {
    /// The member sees it, and its impersonation role must allow it.
    #[default]
    Forward,
    /// The member never sees it.
    Omit,
}

/// Under which name the host's service accounts act on the member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceAccounts {
    /// As the member's account of the same namespace and name.
    #[default]
    Same,
    /// As a user of its own, kubectl-mc:host:serviceaccount:NAMESPACE:NAME.
    Prefixed,
    /// Not at all: requests of service accounts are refused.
    Omit,
}

/// Which users the member's role lets the sidecar impersonate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Users {
    /// Those who may use the member's proxy on the host, by name.
    #[default]
    Listed,
    /// Every user name.
    Any,
}

/// Observed state of the member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterStatus {
    /// The namespace of the member's Secrets, and of the sidecar that manages it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Server URL from the member's Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The member's Kubernetes version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The uid of the member's kube-system, where its agent has enrolled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// When the member last answered: written on change, else at most every 5 minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Time>,
    /// Reachable, CredentialValid, AuthSynced and Ready; Connected, where an agent carries the connection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl MemberCluster {
    /// How the caller's identity is passed to this member. Without settings, uid and extra are
    /// passed on if the rights of the sidecar's account there allow both.
    pub fn forwarded(&self, is_allowed: bool) -> Forwarded {
        match &self.spec.impersonation {
            Some(Impersonation { uid, extra, service_accounts, .. }) => {
                Forwarded { uid: *uid, extra: *extra, service_accounts: *service_accounts }
            }
            None if is_allowed => Forwarded::default(),
            None => Forwarded { uid: Forwarding::Omit, extra: Forwarding::Omit, ..Forwarded::default() },
        }
    }

    /// Under which name the host's service accounts act on this member.
    pub fn service_accounts(&self) -> ServiceAccounts {
        self.forwarded(true).service_accounts
    }

    /// Whether the leader has written the sidecar's rights on the member.
    pub fn has_written_rights(&self) -> bool {
        let conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|condition| condition.type_ == "AuthSynced" && condition.status == "True")
    }

    /// Condition `Reachable`, if it reports that the leader cannot reach this server.
    pub fn unreachable(&self, server: &str) -> Option<&Condition> {
        let status = self.status.as_ref().filter(|status| status.server.as_deref() == Some(server))?;
        status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Reachable" && condition.status == "False")
    }
}

/// The schema of a list of RBAC subjects: the list is atomic, and the kind is one of the three of RBAC.
pub(crate) fn subjects_schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = T::json_schema(generator);
    schema.insert("x-kubernetes-list-type".to_owned(), "atomic".into());
    let mut subject = Subject::json_schema(generator);
    if let Some(kind) = subject.pointer_mut("/properties/kind") {
        kind["enum"] = json!(["User", "Group", "ServiceAccount"]);
    }
    schema.insert("items".to_owned(), subject.to_value());
    schema
}

/// The shortest interval between writes of `lastSeen`.
pub const SEEN_INTERVAL: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::Value;

    use super::*;

    /// The lists below a schema without a declared list type.
    fn undeclared(schema: &Value, path: &str, found: &mut Vec<String>) {
        if schema["type"] == "array" && schema.get("x-kubernetes-list-type").is_none() {
            found.push(path.to_owned());
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            undeclared(field, &format!("{path}.{name}"), found);
        }
        if let Some(items) = schema.get("items") {
            undeclared(items, &format!("{path}[]"), found);
        }
    }

    #[test]
    fn every_list_declares_its_list_type() {
        let crd = serde_json::to_value(MemberCluster::crd()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut found = Vec::new();
        undeclared(schema, "", &mut found);
        assert_eq!(found, [""; 0]);
        let conditions = &schema["properties"]["status"]["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-list-type"], "map");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
        let kind = "/properties/spec/properties/impersonation/properties/subjects/items/properties/kind/enum";
        assert_eq!(schema.pointer(kind), Some(&json!(["User", "Group", "ServiceAccount"])));
    }
}
