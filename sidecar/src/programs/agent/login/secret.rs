//! The Secret in the member's cluster from which the agent's files are mounted.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::programs::agent::config::Config;

pub(super) struct OwnSecret {
    namespace: String,
    name: String,
    kubeconfig: Option<PathBuf>,
    /// The member's API, used as the agent's account.
    pub(super) member: OnceCell<kube::Client>,
}

impl OwnSecret {
    pub(super) fn of(config: &Config) -> Option<Self> {
        let (namespace, name) = config.token_secret.clone()?;
        Some(Self { namespace, name, kubeconfig: config.kubeconfig.clone(), member: OnceCell::new() })
    }

    /// Writes these keys, and keeps the others.
    pub(super) async fn write(&self, values: &BTreeMap<&'static str, String>) -> anyhow::Result<()> {
        let connecting = || crate::host::client::new(self.kubeconfig.as_deref());
        let member = self.member.get_or_try_init(connecting).await?;
        let secrets = Api::<Secret>::namespaced(member.clone(), &self.namespace);
        let patch = Patch::Merge(json!({"stringData": values}));
        secrets.patch(&self.name, &PatchParams::default(), &patch).await?;
        Ok(())
    }
}
