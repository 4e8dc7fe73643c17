//! Defines the custom resource `ClusterAccess`, a grant that the leader maintains: its subjects, the members
//! that a selector or a list of names selects, the ClusterRole or Role that the subjects get there, and its
//! expiration.
//!
//! On the host, a grant becomes a ClusterRole and a ClusterRoleBinding named [`host_name`]. On each member,
//! the subjects of all grants of one role share the bindings named [`RoleRef::binding_name`]. The member's
//! administrators can thus limit the manager to one role by the name of its bindings.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::CustomResource;
use kube::core::{ParseExpressionError, Selector};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::member_cluster::subjects_schema;
use crate::names::NAMESPACE;

/// Access of users to members, kept by the sidecar's leader.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "fleet.kubectl-mc.dev",
    version = "v1alpha1",
    kind = "ClusterAccess",
    plural = "clusteraccesses",
    shortname = "mca",
    status = "ClusterAccessStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A role for subjects on selected members, with an optional expiration. The sidecar's leader maintains it.",
    printcolumn = r#"{"name":"Role","type":"string","jsonPath":".spec.roleRef.name"}"#,
    printcolumn = r#"{"name":"Clusters","type":"string","jsonPath":".status.summary"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Expires","type":"string","format":"date-time","jsonPath":".spec.expirationTimestamp"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Namespaces","type":"string","priority":1,"jsonPath":".spec.namespaces"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","priority":1,"jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    validation = Rule::new("size(self.metadata.name) <= 200").message("a ClusterAccess's name has 200 characters at most"),
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.clusters) != has(self.clusterSelector)", "message": "set either clusters or clusterSelector"},
    {"rule": "self.roleRef.kind != 'Role' || has(self.namespaces)", "message": "a Role needs namespaces"},
]))]
pub struct ClusterAccessSpec {
    /// Subjects that get the role.
    #[schemars(schema_with = "subjects")]
    pub subjects: Vec<Subject>,
    /// The names of the members. Either these or clusterSelector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "cluster_names")]
    pub clusters: Option<Vec<String>>,
    /// Selects the members by the labels of their MemberClusters; an empty selector selects all. Either this or clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "label_selector")]
    pub cluster_selector: Option<LabelSelector>,
    /// The role that they have on the members.
    pub role_ref: RoleRef,
    /// The namespaces of the members in which they have it; none means everywhere. A Role needs some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "namespaces")]
    pub namespaces: Option<Vec<String>>,
    /// The verbs of clusters/proxy that they have on the host: get to read, create for exec and port-forward. None
    /// means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "proxy_verbs")]
    pub proxy_verbs: Option<Vec<String>>,
    /// When the access ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration_timestamp: Option<Time>,
}

/// A role of the members. Their administrators list the ones that may be bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct RoleRef {
    /// ClusterRole, or Role: the one of this name in each of the namespaces.
    #[serde(default)]
    pub kind: RoleKind,
    /// The name of the role on the members.
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
}

/// The kinds of roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum RoleKind {
    /// A role of the whole member.
    #[default]
    ClusterRole,
    /// A role of one namespace.
    Role,
}

/// Status of the grant on each member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAccessStatus {
    /// The generation of the spec that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The namespace of the sidecar that wrote the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Members that have it, of those that should: 3/4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Every selected member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub clusters: Vec<ClusterState>,
    /// Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Whether one member has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterState {
    pub name: String,
    /// True, False, or Unknown before the first sync.
    pub status: String,
    /// A word for programs.
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl RoleRef {
    pub fn new(kind: RoleKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into() }
    }

    /// Reads an entry of a member's list of bindable roles: `NAME` is a ClusterRole, `NAMESPACE/NAME` a Role
    /// of that namespace. No name of a role has a slash.
    pub fn from_entry(entry: &str) -> (Self, Option<&str>) {
        match entry.split_once('/') {
            Some((namespace, name)) => (Self::new(RoleKind::Role, name), Some(namespace)),
            None => (Self::new(RoleKind::ClusterRole, entry), None),
        }
    }

    /// The entry of a member's list that allows this role to be bound in a namespace, or everywhere without
    /// one.
    pub fn entry(&self, namespace: Option<&str>) -> String {
        match self.kind {
            RoleKind::ClusterRole => self.name.clone(),
            // A Role has a namespace. Without one, the entry begins with a slash and is in no valid list.
            RoleKind::Role => format!("{}/{}", namespace.unwrap_or_default(), self.name),
        }
    }

    /// The name of the role's bindings on a member. It differs between a ClusterRole and a Role of the same
    /// name.
    pub fn binding_name(&self) -> String {
        let prefix = match self.kind {
            RoleKind::ClusterRole => CLUSTER_ROLE_PREFIX,
            RoleKind::Role => ROLE_PREFIX,
        };
        format!("{prefix}{}", self.name)
    }

    /// The role that bindings of this name refer to.
    pub fn of_binding(name: &str) -> Option<Self> {
        let of = |prefix, kind| name.strip_prefix(prefix).map(|role| Self::new(kind, role));
        of(CLUSTER_ROLE_PREFIX, RoleKind::ClusterRole).or_else(|| of(ROLE_PREFIX, RoleKind::Role))
    }
}

impl RoleKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterRole => "ClusterRole",
            Self::Role => "Role",
        }
    }
}

impl ClusterAccess {
    /// The selector of members, if it has one.
    ///
    /// # Errors
    ///
    /// An operator that Kubernetes does not know, or one with too many or too few values. Kubernetes refuses
    /// such selectors in its own objects (apimachinery: `LabelSelectorAsSelector`).
    pub fn selector(&self) -> Result<Option<Selector>, InvalidSelector> {
        let Some(selector) = self.spec.cluster_selector.clone() else { return Ok(None) };
        for expression in selector.match_expressions.iter().flatten() {
            let has_values = expression.values.as_ref().is_some_and(|values| !values.is_empty());
            if has_values != matches!(expression.operator.as_str(), "In" | "NotIn") {
                let (key, operator) = (expression.key.clone(), expression.operator.clone());
                return Err(InvalidSelector::Values { key, operator });
            }
        }
        Ok(Some(Selector::try_from(selector)?))
    }

    /// Whether the access has expired. Once a leader has reported the expiration, it holds for another leader
    /// whose clock is up to 5 minutes behind.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        let Some(end) = &self.spec.expiration_timestamp else { return false };
        end.0 <= now || (self.has_been_expired() && end.0.duration_since(now) <= CLOCK_SKEW)
    }

    /// Whether the status reports the expiration of this generation of the spec.
    fn has_been_expired(&self) -> bool {
        let mut conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions.any(|condition| {
            condition.reason == EXPIRED && condition.observed_generation == self.metadata.generation
        })
    }
}

/// A selector that Kubernetes would refuse.
#[derive(Debug, thiserror::Error)]
pub enum InvalidSelector {
    #[error(
        "{key}: operator {operator:?} has values, or lacks them; In and NotIn need some, Exists and DoesNotExist none"
    )]
    Values { key: String, operator: String },
    #[error(transparent)]
    Unknown(#[from] ParseExpressionError),
}

/// The name of a ClusterAccess's ClusterRole and ClusterRoleBinding on the host. Sidecars in several
/// namespaces have one each.
pub fn host_name(access: &str, namespace: &str) -> String {
    match namespace {
        NAMESPACE => format!("{HOST_PREFIX}{access}"),
        _ => format!("{HOST_PREFIX}{access}:{namespace}"),
    }
}

/// The prefix of the host's objects for ClusterAccesses. It differs from the prefixes on members, because a
/// host can be a member of another host.
pub const HOST_PREFIX: &str = "kubectl-mc-access:";
/// The prefix of the bindings of ClusterRoles on members.
pub const CLUSTER_ROLE_PREFIX: &str = "kubectl-mc-bound:";
/// The prefix of the bindings of Roles on members.
pub const ROLE_PREFIX: &str = "kubectl-mc-bound-role:";

/// The reason of condition `Ready` after the expiration.
pub const EXPIRED: &str = "Expired";
/// The largest tolerated difference between the clocks of two replicas.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

fn subjects(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = subjects_schema::<Vec<Subject>>(generator);
    schema.insert("minItems".to_owned(), 1.into());
    schema.insert("maxItems".to_owned(), MAX_ITEMS.into());
    schema
}

fn cluster_names(_: &mut SchemaGenerator) -> Schema {
    names(MAX_CLUSTERS)
}

fn namespaces(_: &mut SchemaGenerator) -> Schema {
    names(MAX_ITEMS)
}

/// A set of DNS labels.
fn names(most: usize) -> Schema {
    json_schema!({
        "type": "array",
        "nullable": true,
        "minItems": 1,
        "maxItems": most,
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
    })
}

fn proxy_verbs(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "nullable": true,
        "minItems": 1,
        "maxItems": 8,
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "enum": ["get", "create", "update", "patch", "delete", "*"]},
    })
}

/// Declares the lists of a selector atomic: one owner replaces them as a whole.
fn label_selector(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = <Option<LabelSelector>>::json_schema(generator);
    for list in ["/properties/matchExpressions", "/properties/matchExpressions/items/properties/values"] {
        if let Some(list) = schema.pointer_mut(list) {
            list["x-kubernetes-list-type"] = json!("atomic");
        }
    }
    schema
}

/// The limit for subjects and for namespaces. Larger grants need several objects.
const MAX_ITEMS: usize = 100;
const MAX_CLUSTERS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn access(end: &str, expired_at_generation: Option<i64>) -> ClusterAccess {
        let condition = |generation: i64| {
            json!({"type": "Ready", "status": "False", "reason": EXPIRED, "message": "", "observedGeneration": generation,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        serde_json::from_value(json!({
            "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "ClusterAccess",
            "metadata": {"name": "a", "generation": 2},
            "spec": {"subjects": [], "roleRef": {"name": "view"}, "expirationTimestamp": end},
            "status": {"conditions": expired_at_generation.map(condition).into_iter().collect::<Vec<_>>()},
        }))
        .unwrap()
    }

    #[test]
    fn roles_and_cluster_roles_have_distinct_names() {
        let (cluster_role, everywhere) = RoleRef::from_entry("view");
        let (role, in_shop) = RoleRef::from_entry("shop/view");
        assert_eq!((cluster_role.kind, everywhere), (RoleKind::ClusterRole, None));
        assert_eq!((role.kind, in_shop), (RoleKind::Role, Some("shop")));
        assert_eq!(cluster_role.entry(Some("shop")), "view");
        assert_eq!(role.entry(Some("web")), "web/view");
        // RBAC allows nearly any name for a ClusterRole.
        let (odd, _) = RoleRef::from_entry("-role:view");
        let names = [&cluster_role, &role, &odd].map(RoleRef::binding_name);
        assert_eq!(
            names,
            ["kubectl-mc-bound:view", "kubectl-mc-bound-role:view", "kubectl-mc-bound:-role:view"]
        );
        assert_eq!(names.map(|name| RoleRef::of_binding(&name).unwrap()), [cluster_role, role, odd]);
        assert_eq!(RoleRef::of_binding("view"), None);
    }

    #[test]
    fn expired_access_stays_expired_despite_clock_skew() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let is_expired = |end, generation| access(end, generation).is_expired(now);
        assert!(is_expired("2026-01-01T12:00:00Z", None));
        assert!(!is_expired("2026-01-01T12:00:01Z", None));
        assert!(is_expired("2026-01-01T12:04:00Z", Some(2)));
        assert!(!is_expired("2026-01-01T12:04:00Z", Some(1)), "a new end is believed");
        assert!(!is_expired("2026-01-01T13:00:00Z", Some(2)), "a clock that was hours ahead is not");
    }
}
