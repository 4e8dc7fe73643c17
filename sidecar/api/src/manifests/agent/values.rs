//! Parses the values of an agent, for its Helm chart and for `kubectl mc join --agent-values`. Their meanings
//! and defaults are in `sidecar/deploy/agent-chart/values.yaml`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::error::Error;
use super::super::pod::Scheduling;
use super::super::values::{Image, SecretName, merged};

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentValues {
    /// The chart's; a join names the cluster.
    pub cluster: String,
    pub image: Image,
    pub image_pull_secrets: Vec<SecretName>,
    pub replicas: NonZeroU32,
    pub target: String,
    pub resources: Map<String, Value>,
    pub node_selector: BTreeMap<String, String>,
    pub affinity: Map<String, Value>,
    pub tolerations: Vec<Map<String, Value>>,
    pub priority_class_name: String,
    pub pod_annotations: BTreeMap<String, String>,
    pub pod_labels: BTreeMap<String, String>,
    pub extra_args: Vec<String>,
    pub extra_env: Vec<Map<String, Value>>,
    /// Ignored; Helm passes it to the charts in a chart.
    #[serde(default)]
    pub global: Map<String, Value>,
}

impl AgentValues {
    /// Merges the values of a file into the chart's defaults, as Helm does.
    pub fn parse(text: &str) -> Result<Self, Error> {
        merged(DEFAULTS, text)
    }

    pub(super) fn scheduling(&self) -> Scheduling<'_> {
        Scheduling {
            image_pull_secrets: &self.image_pull_secrets,
            node_selector: &self.node_selector,
            affinity: &self.affinity,
            tolerations: &self.tolerations,
            priority_class_name: &self.priority_class_name,
        }
    }
}

impl Default for AgentValues {
    fn default() -> Self {
        Self::parse("").expect("values.yaml has every value")
    }
}

const DEFAULTS: &str = include_str!("../../../../deploy/agent-chart/values.yaml");
