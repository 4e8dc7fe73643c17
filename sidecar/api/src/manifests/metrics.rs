//! Renders the objects with which Prometheus and Grafana find the metrics, the alert rules and the
//! dashboard.

use serde_json::{Value, json};

use super::{Error, Parameters};
use crate::names::SIDECAR;

impl Parameters {
    /// The objects in the cluster that runs the sidecars.
    pub(super) fn metrics(&self) -> Result<Vec<Value>, Error> {
        let wanted = &self.values.metrics;
        let mut objects = Vec::new();
        if wanted.service.enabled {
            objects.extend(self.all(SERVICE)?);
        }
        if wanted.rules.enabled {
            objects.push(json!({
                "apiVersion": "monitoring.coreos.com/v1",
                "kind": "PrometheusRule",
                "metadata": {"name": SIDECAR, "namespace": self.namespace, "labels": wanted.rules.labels},
                "spec": self.one(RULES)?,
            }));
        }
        if wanted.dashboard.enabled {
            objects.push(json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": "mc-sidecar-dashboard",
                    "namespace": self.namespace,
                    "labels": wanted.dashboard.labels,
                },
                "data": {"mc-sidecar.json": DASHBOARD},
            }));
        }
        Ok(objects)
    }

    /// The PodMonitor for the Prometheus operator, on hosts that run the sidecar themselves.
    pub(super) fn pod_monitor(&self) -> Result<Vec<Value>, Error> {
        let wanted = &self.values.metrics.pod_monitor;
        if !wanted.enabled {
            return Ok(Vec::new());
        }
        let mut objects = self.all(POD_MONITOR)?;
        if let Some(monitor) = objects.iter_mut().find(|object| object["kind"] == "PodMonitor") {
            monitor["metadata"]["labels"] = json!(wanted.labels);
            let endpoint = &mut monitor["spec"]["podMetricsEndpoints"][0];
            endpoint["interval"] = wanted.interval.as_str().into();
            endpoint["tlsConfig"]["ca"]["secret"]["name"] = self.authority().into();
        }
        Ok(objects)
    }
}

const SERVICE: &str = include_str!("../../../deploy/metrics-service.yaml");
const POD_MONITOR: &str = include_str!("../../../deploy/pod-monitor.yaml");
/// A rules file of Prometheus, which is the `spec` of a PrometheusRule.
const RULES: &str = include_str!("../../../deploy/alerts.yaml");
const DASHBOARD: &str = include_str!("../../../deploy/dashboard.json");
