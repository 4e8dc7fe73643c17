//! Finds the workloads in a list of objects of several clusters.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::time::Duration;

use kubectl_mc_api::names;
use serde_json::Value;

use crate::cluster::cluster_id::ClusterId;

/// An object whose pods kubectl waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Workload {
    namespace: String,
    /// As kubectl writes it: `deployment/web`.
    object: String,
}

impl Workload {
    /// kubectl's command that waits for the rollout.
    pub(super) fn status(&self, caller: &[OsString], timeout: Duration) -> Vec<OsString> {
        let mut words = self.words("status");
        words.push(format!("--timeout={}s", timeout.as_secs()).into());
        words.extend_from_slice(caller);
        words
    }

    /// kubectl's command that goes back to the previous revision.
    pub(super) fn undo(&self) -> Vec<OsString> {
        self.words("undo")
    }

    fn words(&self, subcommand: &str) -> Vec<OsString> {
        let Self { namespace, object } = self;
        ["rollout", subcommand, object, &format!("--namespace={namespace}")].map(OsString::from).into()
    }
}

/// The workloads of a merged list, with the clusters that have each.
pub(super) fn of<'a>(
    list: &Value,
    clusters: impl Iterator<Item = &'a ClusterId>,
) -> BTreeMap<Workload, Vec<ClusterId>> {
    let clusters: HashMap<&str, &ClusterId> = clusters.map(|cluster| (cluster.as_str(), cluster)).collect();
    let mut found: BTreeMap<Workload, Vec<ClusterId>> = BTreeMap::new();
    for item in list["items"].as_array().into_iter().flatten() {
        let cluster = item["metadata"]["annotations"][names::CLUSTER].as_str();
        if let (Some(workload), Some(cluster)) = (workload(item), cluster.and_then(|name| clusters.get(name)))
        {
            found.entry(workload).or_default().push((*cluster).clone());
        }
    }
    found
}

/// kubectl reports the rollout of these types, if they roll out by themselves.
fn workload(item: &Value) -> Option<Workload> {
    let kind = item["kind"].as_str()?;
    let is_known = item["apiVersion"].as_str()?.starts_with("apps/")
        && ["Deployment", "StatefulSet", "DaemonSet"].contains(&kind);
    let is_by_hand = item["spec"]["updateStrategy"]["type"] == "OnDelete" || item["spec"]["paused"] == true;
    let text = |field: &str| item["metadata"][field].as_str();
    (is_known && !is_by_hand).then_some(())?;
    Some(Workload {
        namespace: text("namespace")?.to_owned(),
        object: format!("{}/{}", kind.to_lowercase(), text("name")?),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn workloads_are_grouped_over_clusters() {
        let item = |kind: &str, name: &str, cluster: &str, spec: Value| {
            json!({"apiVersion": "apps/v1", "kind": kind, "spec": spec, "metadata": {
                "name": name, "namespace": "shop", "annotations": {names::CLUSTER: cluster}}})
        };
        let mut service = item("Service", "web", "m1", json!({}));
        service["apiVersion"] = "v1".into();
        let list = json!({"items": [
            item("Deployment", "web", "m1", json!({})), item("Deployment", "web", "m2", json!({})), service,
            item("DaemonSet", "by-hand", "m1", json!({"updateStrategy": {"type": "OnDelete"}})),
            item("Deployment", "paused", "m1", json!({"paused": true})),
            item("StatefulSet", "db", "m2", json!({})),
        ]});
        let clusters: [ClusterId; 2] = ["m1", "m2"].map(|name| name.parse().unwrap());
        let found = of(&list, clusters.iter());
        let names: Vec<_> = found.iter().map(|(of, on)| (of.object.as_str(), on.len())).collect();
        assert_eq!(names, [("deployment/web", 2), ("statefulset/db", 1)]);
        let web = found.keys().next().unwrap();
        let words = web.status(&["--as=jane".into()], Duration::from_secs(5));
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words.join(" "), "rollout status deployment/web --namespace=shop --timeout=5s --as=jane");
    }
}
