//! Parses the values of an installation, for the Helm chart and for `kubectl mc install --values`. Their
//! meanings and defaults are in `sidecar/deploy/chart/values.yaml`.

use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU32};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::error::Error;
use crate::{Origin, direct};

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Values {
    pub image: Image,
    pub image_pull_secrets: Vec<SecretName>,
    pub replicas: NonZeroU32,
    pub secure_port: Option<NonZeroU16>,
    pub host_network: bool,
    pub certificates: Certificates,
    pub tls: Tls,
    pub direct: Direct,
    pub cluster_profiles: ClusterProfiles,
    pub fleet_view: bool,
    pub list_for: Vec<String>,
    pub inventory: Vec<Origin>,
    pub karmada_namespace: String,
    pub karmada_member_rbac: bool,
    pub kubeadmiral_namespace: String,
    pub service_account: ServiceAccount,
    pub resources: Map<String, Value>,
    pub node_selector: BTreeMap<String, String>,
    pub affinity: Map<String, Value>,
    pub tolerations: Vec<Map<String, Value>>,
    pub priority_class_name: String,
    pub pod_annotations: BTreeMap<String, String>,
    pub pod_labels: BTreeMap<String, String>,
    pub extra_args: Vec<String>,
    pub extra_env: Vec<Map<String, Value>>,
    pub extra_volumes: Vec<Map<String, Value>>,
    pub extra_volume_mounts: Vec<Map<String, Value>>,
    pub metrics: Metrics,
    /// Ignored; Helm passes it to the charts in a chart.
    #[serde(default)]
    pub global: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Image {
    pub repository: String,
    pub tag: String,
    #[serde(deserialize_with = "digest")]
    #[schemars(regex(pattern = "^(sha256:[0-9a-f]{64})?$"))]
    pub digest: String,
    pub pull_policy: PullPolicy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    #[serde(rename = "")]
    OfTheTag,
    Always,
    IfNotPresent,
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretName {
    pub name: String,
}

/// The issuer of the serving certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Certificates {
    SelfManaged,
    CertManager,
    Secret,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tls {
    pub secret_name: String,
    pub ca_bundle: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Direct {
    pub expose: Expose,
    #[serde(deserialize_with = "server")]
    #[schemars(with = "String", regex(pattern = "^(https://[^/@?#]+/?)?$"))]
    pub server: Option<direct::Server>,
    pub annotations: BTreeMap<String, String>,
    pub node_port: Option<NonZeroU16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterProfiles {
    #[serde(deserialize_with = "server")]
    #[schemars(with = "String", regex(pattern = "^(https://[^/@?#]+/?)?$"))]
    pub server: Option<direct::Server>,
}

/// The type of the direct endpoint's Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Expose {
    #[serde(rename = "none")]
    Nowhere,
    LoadBalancer,
    NodePort,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceAccount {
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metrics {
    pub service: MetricsService,
    pub pod_monitor: PodMonitor,
    pub rules: SelectedByLabels,
    pub dashboard: SelectedByLabels,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricsService {
    pub enabled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PodMonitor {
    pub enabled: bool,
    pub interval: String,
    pub labels: BTreeMap<String, String>,
}

/// An object that its reader selects by labels.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SelectedByLabels {
    pub enabled: bool,
    pub labels: BTreeMap<String, String>,
}

impl Values {
    /// Merges the values of a file into the chart's defaults, as Helm does.
    pub fn parse(text: &str) -> Result<Self, Error> {
        merged(DEFAULTS, text)
    }
}

impl Default for Values {
    fn default() -> Self {
        Self::parse("").expect("values.yaml has every value")
    }
}

impl Image {
    /// The reference of the image, if the values name a repository.
    pub fn reference(&self) -> Option<String> {
        let Self { repository, tag, digest, pull_policy: _ } = self;
        let tag = if tag.is_empty() { VERSION } else { tag };
        match (repository.as_str(), digest.as_str()) {
            ("", _) => None,
            (_, "") => Some(format!("{repository}:{tag}")),
            _ => Some(format!("{repository}@{digest}")),
        }
    }
}

/// Merges the values of a file into a chart's defaults, as Helm does.
pub(super) fn merged<T: DeserializeOwned>(defaults: &str, text: &str) -> Result<T, Error> {
    let values =
        |text| serde_saphyr::from_str::<Value>(text).map_err(|error| Error::Values(error.to_string()));
    let mut merged = values(defaults)?;
    if !text.trim().is_empty() {
        merge(&mut merged, values(text)?);
    }
    serde_json::from_value(merged).map_err(|error| Error::Values(error.to_string()))
}

fn server<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<direct::Server>, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "" => Ok(None),
        url => url.parse().map(Some).map_err(serde::de::Error::custom),
    }
}

fn digest<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_hex =
        |hex: &str| hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if text.is_empty() || text.strip_prefix("sha256:").is_some_and(is_hex) {
        return Ok(text);
    }
    Err(serde::de::Error::custom("a digest is sha256: and 64 hexadecimal digits"))
}

/// Merges maps key by key and replaces any other value; null removes a key.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (_, Value::Null) => {}
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                match value {
                    Value::Null => drop(base.remove(&key)),
                    value => merge(base.entry(key).or_insert(Value::Null), value),
                }
            }
        }
        (base, over) => *base = over,
    }
}

const DEFAULTS: &str = include_str!("../../../deploy/chart/values.yaml");
/// The version of the chart and of both programs.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
