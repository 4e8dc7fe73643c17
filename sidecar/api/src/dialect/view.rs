//! Converts the clusters that a hub lists into objects with the format of kubectl-mc's own sidecar.
//! Other fields are dropped, because cluster-gateway's objects contain the clusters' credentials.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::kind::Dialect;
use super::profile;
use super::segment::Segment;
use crate::{ClusterName, path};

/// The clusters of a hub.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The clusters in the form of kubectl-mc's own `clusters`, in the order of the hub.
    pub clusters: Vec<Value>,
    /// The id of each cluster whose name differs from it.
    pub ids: BTreeMap<ClusterName, Segment>,
    /// The clusters without a valid id or without a usable name.
    pub unusable: Vec<Unusable>,
}

/// A cluster whose name or id is refused. The text is unescaped data from the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable(pub String);

impl Dialect {
    /// All clusters of a hub's list.
    pub fn view(&self, list: &Value) -> View {
        let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut view = View::default();
        let mut read = Vec::new();
        for item in items {
            match self.read(item) {
                Ok(cluster) => read.push((cluster, item)),
                Err(unusable) => view.unusable.push(unusable),
            }
        }
        let ids: BTreeSet<_> = read.iter().map(|(cluster, _)| cluster.id.as_str().to_owned()).collect();
        let mut names = BTreeMap::<_, usize>::new();
        for (cluster, _) in &read {
            *names.entry(cluster.name.clone()).or_default() += 1;
        }
        for (Read { id, name }, item) in read {
            // A name that two clusters have, or that is the id of another cluster, is ambiguous:
            // the id replaces it.
            let is_other =
                name.as_ref().is_some_and(|name| name.as_str() != id.as_str() && ids.contains(name.as_str()));
            let name = name.filter(|_| !is_other).filter(|name| names.get(&Some(name.clone())) == Some(&1));
            let Some(name) = name.or_else(|| id.as_str().parse().ok()) else {
                view.unusable.push(Unusable(id.to_string()));
                continue;
            };
            view.clusters.push(self.cluster(&name, &id, item));
            if name.as_str() != id.as_str() {
                view.ids.insert(name, id);
            }
        }
        view
    }

    /// One cluster of a hub whose paths contain the cluster's name.
    pub fn cluster_of(&self, item: &Value) -> Option<Value> {
        let Read { id, name } = self.read(item).ok()?;
        let name = name.filter(|name| name.as_str() == id.as_str())?;
        Some(self.cluster(&name, &id, item))
    }

    fn read(&self, item: &Value) -> Result<Read, Unusable> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let of_object = text(&item["metadata"]["name"]);
        let (id, name) = match self {
            Self::Clusternet => (text(&item["spec"]["clusterId"]), of_object),
            Self::Rancher => (of_object, text(&item["spec"]["displayName"])),
            _ => (of_object.clone(), of_object),
        };
        let unusable = || Unusable(name.clone().or_else(|| id.clone()).unwrap_or_default());
        let id = id.as_deref().and_then(|id| id.parse().ok()).ok_or_else(unusable)?;
        Ok(Read { id, name: name.as_deref().and_then(|name| name.parse().ok()) })
    }

    fn cluster(&self, name: &ClusterName, id: &Segment, item: &Value) -> Value {
        let (spec, status) = (&item["spec"], &item["status"]);
        let (version, server) = match self {
            Self::Own => (&status["version"], &status["server"]),
            Self::Karmada => (&status["kubernetesVersion"], &spec["apiEndpoint"]),
            Self::KubeAdmiral => (&Value::Null, &spec["apiEndpoint"]),
            Self::Clusternet => (&status["k8sVersion"], &status["apiserverURL"]),
            Self::ClusterGateway => (&Value::Null, &spec["access"]["endpoint"]["const"]["address"]),
            Self::Rancher => (&status["version"]["gitVersion"], &status["apiEndpoint"]),
            Self::ClusterProfile(_) => (&status["version"]["kubernetes"], profile::server(item)),
            Self::Ocm | Self::Template(_) => (&Value::Null, &Value::Null),
        };
        let conditions = match self {
            Self::ClusterGateway => health(status),
            Self::ClusterProfile(_) => profile::conditions(conditions(status)),
            _ => conditions(status),
        };
        let mut metadata = json!({"name": name});
        let labels = item["metadata"]["labels"].as_object().into_iter().flatten();
        let labels: Map<_, _> = labels
            .filter(|(_, value)| value.is_string())
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !labels.is_empty() {
            metadata["labels"] = labels.into();
        }
        copy(&item["metadata"]["creationTimestamp"], &mut metadata, "creationTimestamp");
        let mut shown = json!({"conditions": conditions});
        copy(version, &mut shown, "version");
        copy(server, &mut shown, "server");
        if name.as_str() != id.as_str() {
            shown["id"] = id.as_str().into();
        }
        json!({"apiVersion": path::PROXY_GROUP_VERSION, "kind": "Cluster", "metadata": metadata, "status": shown})
    }
}

struct Read {
    id: Segment,
    name: Option<ClusterName>,
}

fn copy(value: &Value, to: &mut Value, key: &str) {
    if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
        to[key] = text.into();
    }
}

fn conditions(status: &Value) -> Vec<Value> {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let shown = conditions.filter(|condition| condition["type"].is_string());
    shown
        .map(|condition| {
            let mut shown = json!({});
            for key in ["type", "status", "reason", "message"] {
                copy(&condition[key], &mut shown, key);
            }
            shown
        })
        .collect()
}

/// cluster-gateway reports `healthy: false` without a reason where it does not check. The health is then
/// unknown.
fn health(status: &Value) -> Vec<Value> {
    let reason = status["healthyReason"].as_str().unwrap_or_default();
    match status["healthy"].as_bool() {
        Some(true) => vec![json!({"type": "Ready", "status": "True"})],
        Some(false) if !reason.is_empty() => {
            vec![json!({"type": "Ready", "status": "False", "reason": reason, "message": reason})]
        }
        _ => Vec::new(),
    }
}
