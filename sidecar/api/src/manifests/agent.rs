//! Renders the objects of an agent on its member from `sidecar/deploy/agent.yaml`, for one cluster, image and
//! host. The chart in `sidecar/deploy/agent-chart` renders the same file, without the Secret.

mod values;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use serde_json::{Value, json};
pub use values::AgentValues;

use super::error::Error;
use super::objects::{labelled, objects};
use super::pod;
use crate::ClusterName;
use crate::names::{AGENT, AGENT_NAMESPACE, KUBECTL_MC};

/// The label that selects the agent's pods.
pub const AGENT_SELECTOR: &str = "app.kubernetes.io/name=mc-agent";

/// An agent of one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    pub cluster: ClusterName,
    /// The full image reference. It takes precedence over the values.
    pub image: String,
    pub values: AgentValues,
}

/// How an agent reaches the host: the keys of its Secret except the token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostConnection {
    pub server: String,
    /// PEM. Without it, the agent trusts the root certificates of its image.
    pub ca: Option<String>,
    pub tls_server_name: Option<String>,
    pub proxy_url: Option<String>,
}

impl Agent {
    /// An agent with the default values.
    pub fn new(cluster: ClusterName, image: impl Into<String>) -> Self {
        Self { cluster, image: image.into(), values: AgentValues::default() }
    }

    /// All objects except the Secret, in the order in which they are applied.
    pub fn objects(&self) -> Result<Vec<Value>, Error> {
        let change =
            |object: Value| if object["kind"] == "Deployment" { self.deployment(object) } else { object };
        Ok(labelled(objects(MANIFEST)?.into_iter().map(change).collect(), &LABELS))
    }

    fn deployment(&self, mut deployment: Value) -> Value {
        let Self { cluster, image, values } = self;
        deployment["spec"]["replicas"] = values.replicas.get().into();
        let template = &mut deployment["spec"]["template"];
        pod::metadata(&mut template["metadata"], &values.pod_labels, &values.pod_annotations, &LABELS);
        values.scheduling().apply(&mut template["spec"]);
        let container = &mut template["spec"]["containers"][0];
        let mut args = vec![
            "agent".to_owned(),
            format!("--cluster={cluster}"),
            "--connection-dir=/etc/mc-agent".to_owned(),
            format!("--token-secret={AGENT_NAMESPACE}/{AGENT}"),
            format!("--target={}", values.target),
            "--admin-bind-address=0.0.0.0:8080".to_owned(),
        ];
        args.extend(values.extra_args.iter().cloned());
        container["args"] = args.into();
        container["image"] = image.as_str().into();
        pod::set(container, "imagePullPolicy", json!(values.image.pull_policy));
        pod::set(container, "env", json!(values.extra_env));
        container["resources"] = json!(values.resources);
        deployment
    }
}

impl HostConnection {
    /// The Secret's keys, without the token.
    pub fn data(&self) -> BTreeMap<&'static str, String> {
        let Self { server, ca, tls_server_name, proxy_url } = self;
        let mut data = BTreeMap::from([("server", server.clone())]);
        let optional = [("ca.crt", ca), ("tls-server-name", tls_server_name), ("proxy-url", proxy_url)];
        data.extend(optional.into_iter().filter_map(|(key, value)| Some((key, value.clone()?))));
        data
    }

    /// The Secret without the token. The token is written separately, so applying this Secret again does not
    /// remove it.
    pub fn secret(&self) -> Value {
        let data = self.data().into_iter().map(|(key, value)| (key, ByteString(value.into_bytes())));
        let mut secret = secret();
        secret["data"] = json!(data.collect::<BTreeMap<_, _>>());
        secret
    }

    /// The Secret as plain text (`stringData`), with a token.
    pub fn secret_in_clear(&self, token: &str) -> Value {
        let mut data = self.data();
        data.insert("token", token.to_owned());
        let mut secret = secret();
        secret["stringData"] = json!(data);
        secret
    }
}

fn secret() -> Value {
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": AGENT, "namespace": AGENT_NAMESPACE},
        "type": "Opaque",
    });
    labelled(vec![secret], &LABELS).swap_remove(0)
}

const MANIFEST: &str = include_str!("../../../deploy/agent.yaml");

/// The labels of every object and of the pods. In the chart, the instance is the name of the release.
const LABELS: [(&str, &str); 4] = [
    ("app.kubernetes.io/name", AGENT),
    ("app.kubernetes.io/instance", AGENT),
    ("app.kubernetes.io/component", "agent"),
    ("app.kubernetes.io/part-of", KUBECTL_MC),
];

#[cfg(test)]
mod tests;
