//! Finds the pods of a plan, and the containers of each that kubectl would select.

use serde::Deserialize;

use super::plan::{Containers, LogsPlan, Pods};
use crate::multi::direct::answer::{self, Page};
use crate::multi::direct::failure::MemberFailure;
use crate::multi::direct::member::{Member, Query};
use crate::multi::direct::path_name::is_name;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pod {
    pub(super) metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: String,
    #[serde(default)]
    pub(super) uid: String,
    #[serde(default)]
    pub(super) resource_version: String,
    /// When the deletion of the pod started.
    pub(super) deletion_timestamp: Option<String>,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    node_name: String,
    #[serde(default)]
    init_containers: Vec<Container>,
    #[serde(default)]
    containers: Vec<Container>,
    #[serde(default)]
    ephemeral_containers: Vec<Container>,
}

#[derive(Debug, Deserialize)]
struct Container {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus {
    #[serde(default)]
    init_container_statuses: Vec<ContainerStatus>,
    #[serde(default)]
    container_statuses: Vec<ContainerStatus>,
    #[serde(default)]
    ephemeral_container_statuses: Vec<ContainerStatus>,
}

impl PodStatus {
    fn all(&self) -> impl Iterator<Item = &ContainerStatus> {
        let Self { init_container_statuses, container_statuses, ephemeral_container_statuses } = self;
        init_container_statuses.iter().chain(container_statuses).chain(ephemeral_container_statuses)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    #[serde(default, rename = "containerID")]
    id: String,
    #[serde(default)]
    state: State,
    #[serde(default)]
    last_state: State,
}

impl ContainerStatus {
    /// The id of the container run to which the log belongs.
    fn run(&self) -> Option<&str> {
        let Self { id, state, last_state, .. } = self;
        if state.running.is_some() {
            return Some(id);
        }
        let ended = state.terminated.as_ref().or(last_state.terminated.as_ref())?;
        Some(if ended.id.is_empty() { id } else { &ended.id })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    running: Option<serde_json::Value>,
    terminated: Option<Terminated>,
}

#[derive(Debug, Deserialize)]
struct Terminated {
    #[serde(default, rename = "containerID")]
    id: String,
}

/// The pods of a plan.
pub(super) async fn of(plan: &LogsPlan, member: &Member, namespace: &str) -> Result<Vec<Pod>, MemberFailure> {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    match &plan.pods {
        Pods::Named(name) => match named(member, namespace, name).await {
            Ok(mut pod) => {
                pod.metadata.name.clone_from(name);
                Ok(vec![pod])
            }
            Err(MemberFailure::Server { code: 404, message, .. }) => Err(MemberFailure::Said(format!(
                // kubectl uses this text only for logs.
                "error: error from server (NotFound): {message} in namespace {namespace:?}"
            ))),
            Err(failure) => Err(failure),
        },
        Pods::Selected(selector) => {
            let query = Query::default().with("labelSelector", selector);
            let body = member.get(&format!("{path}{query}"), "application/json").await?;
            let list: Page<Pod> = answer::list(&body)?;
            Ok(list.items.into_iter().filter(|pod| is_name(&pod.metadata.name)).collect())
        }
    }
}

pub(super) async fn named(member: &Member, namespace: &str, name: &str) -> Result<Pod, MemberFailure> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    answer::object(&member.get(&path, "application/json").await?, "Pod")
}

impl Pod {
    /// The containers whose logs are printed, and kubectl's remark about the selection.
    pub(super) fn containers(
        &self,
        wanted: &Containers,
    ) -> Result<(Vec<String>, Option<String>), MemberFailure> {
        let Spec { init_containers, containers, ephemeral_containers, .. } = &self.spec;
        let mut all = init_containers.iter().chain(containers).chain(ephemeral_containers);
        let mut remark = None;
        let name = match wanted {
            Containers::All => return Ok((all.map(|container| container.name.clone()).collect(), None)),
            Containers::Named(name) => name.clone(),
            Containers::Default => {
                let preset = self.metadata.annotations.get(DEFAULT).filter(|name| !name.is_empty());
                let known = preset.filter(|name| all.clone().any(|container| container.name == **name));
                if let (Some(name), None) = (preset, known) {
                    let pod = &self.metadata.name;
                    remark = Some(format!("Default container name {name:?} not found in pod {pod}"));
                }
                let first = containers.first().map(|container| &container.name);
                let Some(name) = known.or(first).cloned() else { return Ok((Vec::new(), remark)) };
                if known.is_none() && all.clone().count() > 1 {
                    remark = Some(format!("Defaulted container {name:?} out of: {}", self.names()));
                }
                name
            }
        };
        if all.any(|container| container.name == name) {
            return Ok((vec![name], remark));
        }
        let pod = &self.metadata.name;
        Err(MemberFailure::Said(format!(
            "error: container {name} is not valid for pod {pod} out of: {}",
            self.names()
        )))
    }

    /// The id of a running container; a new id under the same name means a restart.
    pub(super) fn running(&self, container: &str) -> Option<&str> {
        let mut all = self.status.all();
        let status = all.find(|status| status.name == container && status.state.running.is_some())?;
        Some(&status.id)
    }

    /// The containers with a log, each with its run. For a container that is about to restart, this
    /// is the last run.
    pub(super) fn logs(&self) -> impl Iterator<Item = (&str, &str)> {
        let logs = self.status.all().filter_map(|status| Some((status.name.as_str(), status.run()?)));
        logs.filter(|(_, id)| !id.is_empty())
    }

    /// The node of the pod.
    pub(super) fn node(&self) -> &str {
        &self.spec.node_name
    }

    /// kubectl's list of all containers.
    fn names(&self) -> String {
        let Spec { init_containers, containers, ephemeral_containers, .. } = &self.spec;
        let plain = containers.iter().map(|container| container.name.clone());
        let ephemeral = ephemeral_containers.iter().map(|container| format!("{} (ephem)", container.name));
        let init = init_containers.iter().map(|container| format!("{} (init)", container.name));
        plain.chain(ephemeral).chain(init).collect::<Vec<_>>().join(", ")
    }
}

const DEFAULT: &str = "kubectl.kubernetes.io/default-container";

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotations: &str) -> Pod {
        let json = format!(
            r#"{{"metadata": {{"name": "p", "annotations": {annotations}}},
                "spec": {{"initContainers": [{{"name": "i"}}], "containers": [{{"name": "a"}}, {{"name": "b"}}]}},
                "status": {{"containerStatuses": [
                    {{"name": "a", "containerID": "x://1", "state": {{"running": {{}}}}}},
                    {{"name": "b", "state": {{"terminated": {{}}}}}}]}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn default_container_is_that_of_kubectl() {
        let (names, remark) = pod("{}").containers(&Containers::Default).unwrap();
        assert_eq!(names, ["a"]);
        assert_eq!(remark.as_deref(), Some("Defaulted container \"a\" out of: a, b, i (init)"));
        let preset = pod(r#"{"kubectl.kubernetes.io/default-container": "b"}"#);
        assert_eq!(preset.containers(&Containers::Default).unwrap(), (vec!["b".to_owned()], None));
        assert_eq!(pod("{}").containers(&Containers::All).unwrap().0, ["i", "a", "b"]);
        let failure = pod("{}").containers(&Containers::Named("z".to_owned())).unwrap_err();
        assert_eq!(failure.to_string(), "error: container z is not valid for pod p out of: a, b, i (init)");
    }

    #[test]
    fn logs_name_the_last_run_of_each_container() {
        let json = r#"{"metadata": {"name": "p"}, "status": {
            "initContainerStatuses": [{"name": "i", "containerID": "x://i", "state": {"terminated": {"containerID": "x://i"}}}],
            "containerStatuses": [
                {"name": "a", "containerID": "x://2", "state": {"running": {}}, "lastState": {"terminated": {"containerID": "x://1"}}},
                {"name": "b", "containerID": "x://3", "state": {"waiting": {}}, "lastState": {"terminated": {"containerID": "x://3"}}},
                {"name": "c", "state": {"waiting": {}}}],
            "ephemeralContainerStatuses": [{"name": "e", "containerID": "x://e", "state": {"running": {}}}]}}"#;
        let pod: Pod = serde_json::from_str(json).unwrap();
        let logs: Vec<_> = pod.logs().collect();
        assert_eq!(logs, [("i", "x://i"), ("a", "x://2"), ("b", "x://3"), ("e", "x://e")]);
    }

    #[test]
    fn running_container_is_identified_by_its_id() {
        assert_eq!((pod("{}").running("a"), pod("{}").running("b")), (Some("x://1"), None));
    }
}
