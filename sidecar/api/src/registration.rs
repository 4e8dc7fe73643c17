//! The record of a MemberCluster on its Secret `<name>.member` (annotation [`REGISTRATION`]): its
//! labels, its annotations in our group and its spec, as JSON. The leader writes the record, and
//! `join --restore` recreates the MemberCluster from it after the host has lost the registry.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::names::{FLEET_GROUP, FLEET_GROUP_VERSION, REGISTRATION};
use crate::{ClusterName, MemberCluster, Origin};

/// The content of a MemberCluster, without its name and status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The annotations in [`FLEET_GROUP`]. Other programs must restore theirs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// As JSON, so that fields that this version does not know reach the host, which decides about
    /// them.
    #[serde(default)]
    pub spec: Value,
}

impl Registration {
    /// The record of this MemberCluster; `None` for a member of a hub, which the leader registers anew.
    ///
    /// # Errors
    ///
    /// The record is larger than an annotation may be.
    pub fn record(member: &MemberCluster) -> Option<Result<String, TooLarge>> {
        if Origin::of(member).is_hub() {
            return None;
        }
        let annotations = member.metadata.annotations.clone().unwrap_or_default();
        let registration = Self {
            labels: member.metadata.labels.clone().unwrap_or_default(),
            annotations: annotations.into_iter().filter(|(key, _)| is_ours(key)).collect(),
            spec: json!(member.spec),
        };
        let record = json!(registration).to_string();
        Some(if record.len() > LONGEST { Err(TooLarge(record.len())) } else { Ok(record) })
    }

    /// Reads the record in the annotations of a Secret; `None` without a record.
    ///
    /// # Errors
    ///
    /// The record was not written by a leader.
    pub fn parse(annotations: &BTreeMap<String, String>) -> Option<Result<Self, Invalid>> {
        let record = annotations.get(REGISTRATION)?;
        let parsed = serde_json::from_str(record).map_err(|error| Invalid(error.to_string()));
        Some(parsed.and_then(Self::checked))
    }

    /// Whoever can write the Secret can write its annotations, so only content that a leader writes
    /// is accepted.
    fn checked(self) -> Result<Self, Invalid> {
        if let Some(key) = self.annotations.keys().find(|key| !is_ours(key)) {
            return Err(Invalid(format!("annotation {key:?} is not of {FLEET_GROUP}")));
        }
        if Origin::of_labels(&self.labels).is_hub() {
            return Err(Invalid("it is the record of a member of a hub".to_owned()));
        }
        match self.spec {
            Value::Object(_) => Ok(self),
            _ => Err(Invalid("its spec is no object".to_owned())),
        }
    }

    /// The MemberCluster of this name.
    pub fn object(&self, name: &ClusterName) -> Value {
        let mut object = json!({
            "apiVersion": FLEET_GROUP_VERSION,
            "kind": "MemberCluster",
            "metadata": {"name": name.as_str()},
            "spec": self.spec,
        });
        for (field, map) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if !map.is_empty() {
                object["metadata"][field] = json!(map);
            }
        }
        object
    }
}

fn is_ours(key: &str) -> bool {
    key.split_once('/').is_some_and(|(group, _)| group == FLEET_GROUP)
}

/// The record would be larger than [`LONGEST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the labels, annotations and spec of the MemberCluster take {0} bytes as JSON, of {LONGEST} that are kept"
)]
pub struct TooLarge(usize);

/// Why a record was not written by a leader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid record of the registration: {0}")]
pub struct Invalid(String);

/// All annotations of an object together may have 256 KiB (apimachinery
/// `pkg/api/validation/objectmeta.go` `TotalAnnotationSizeLimitB`). Half is left for others.
const LONGEST: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemberClusterSpec;
    use crate::names::{INVENTORY, MEMBER_UID};

    fn member(metadata: Value, spec: Value) -> MemberCluster {
        let spec: MemberClusterSpec = serde_json::from_value(spec).unwrap();
        let mut member = MemberCluster::new("m1", spec);
        member.metadata = serde_json::from_value(metadata).unwrap();
        member
    }

    fn parsed(record: &str) -> Result<Registration, Invalid> {
        let annotations = BTreeMap::from([(REGISTRATION.to_owned(), record.to_owned())]);
        Registration::parse(&annotations).unwrap()
    }

    #[test]
    fn record_becomes_the_same_member_cluster() {
        let metadata = json!({
            "name": "m1", "uid": "u", "resourceVersion": "7", "labels": {"env": "prod"},
            "annotations": {MEMBER_UID: "v", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        });
        let impersonation =
            json!({"uid": "Omit", "extra": "Forward", "users": "Any", "serviceAccounts": "Prefixed"});
        let spec = json!({"impersonation": impersonation});
        let record = Registration::record(&member(metadata, spec.clone())).unwrap().unwrap();
        let object = parsed(&record).unwrap().object(&"m1".parse().unwrap());
        assert_eq!(
            object,
            json!({
                "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster",
                "metadata": {"name": "m1", "labels": {"env": "prod"}, "annotations": {MEMBER_UID: "v"}},
                "spec": spec,
            })
        );
    }

    #[test]
    fn hub_member_has_no_record() {
        let of_karmada = member(json!({"labels": {INVENTORY: "karmada"}}), json!({}));
        assert_eq!(Registration::record(&of_karmada), None);
    }

    #[test]
    fn record_that_does_not_fit_is_an_error() {
        let large = json!({"annotations": {MEMBER_UID: "x".repeat(LONGEST)}});
        let refused = Registration::record(&member(large, json!({}))).unwrap().unwrap_err();
        assert!(refused.to_string().contains("of 131072 that are kept"), "{refused}");
        let others = json!({"annotations": {"example.com/a": "x".repeat(LONGEST)}});
        assert!(Registration::record(&member(others, json!({}))).unwrap().is_ok());
    }

    #[test]
    fn record_of_somebody_else_is_invalid() {
        for record in [
            "",
            "[]",
            "{}",
            r#"{"spec": "x"}"#,
            r#"{"spec": {}, "labels": {"a": 1}}"#,
            r#"{"spec": {}, "name": "m2"}"#,
            r#"{"spec": {}, "labels": {"fleet.kubectl-mc.dev/inventory": "karmada"}}"#,
            r#"{"spec": {}, "annotations": {"example.com/a": "b"}}"#,
            r#"{"spec": {}, "annotations": {"fleet.kubectl-mc.dev.example.com/a": "b"}}"#,
        ] {
            assert!(parsed(record).is_err(), "{record}");
        }
        assert_eq!(
            parsed(r#"{"spec": {}}"#).unwrap(),
            Registration { spec: json!({}), ..Default::default() }
        );
        assert!(Registration::parse(&BTreeMap::new()).is_none());
    }
}
