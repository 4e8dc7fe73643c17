//! Reads the objects of an agent on its member.

use kubectl_mc_api::names::{AGENT, AGENT_NAMESPACE, KUBECTL_MC, MANAGED_BY};
use kubectl_mc_api::path;
use serde_json::Value;

use crate::cluster::connection::{Connection, ConnectionError};
use crate::join::objects::is_foreign;

/// The objects of an agent on the member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) namespace: Option<Value>,
    pub(crate) deployment: Option<Value>,
    pub(crate) secret: Option<Value>,
}

impl Found {
    pub(crate) async fn of(member: &Connection) -> Result<Self, ConnectionError> {
        let of_namespace = format!("/apis/apps/v1/namespaces/{AGENT_NAMESPACE}/deployments/{AGENT}");
        Ok(Self {
            namespace: member.readable(&format!("/api/v1/namespaces/{AGENT_NAMESPACE}")).await?,
            deployment: member.readable(&of_namespace).await?,
            secret: member.readable(&path::secret(AGENT_NAMESPACE, AGENT)).await?,
        })
    }

    /// The other tool that installed the agent, such as Helm.
    pub(crate) fn owner(&self) -> Option<&str> {
        let label = &self.deployment.as_ref()?["metadata"]["labels"][MANAGED_BY];
        Some(label.as_str().unwrap_or("another tool")).filter(|owner| *owner != KUBECTL_MC)
    }

    /// The address that the agent's pods connect to.
    pub(crate) fn target(&self) -> Option<String> {
        let args =
            self.deployment.as_ref()?["spec"]["template"]["spec"]["containers"][0]["args"].as_array()?;
        let mut target = args.iter().filter_map(|arg| arg.as_str()?.strip_prefix("--target="));
        target.next_back().map(str::to_owned)
    }

    /// Whether the namespace was not created by the plugin.
    pub(crate) fn has_foreign_namespace(&self) -> bool {
        is_foreign(self.namespace.as_ref())
    }
}
