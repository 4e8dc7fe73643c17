//! Keeps [`Trust`] as the host's ConfigMap says, minute by minute.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tracing::{info, warn};

use super::Trust;
use crate::readiness::Pending;

/// Follows the ConfigMap until the process ends. `flags` take the place of the keys they name.
/// `pending` is done once the first version is in force.
pub async fn run(
    host: kube::Client,
    flags: BTreeMap<String, String>,
    trust: Arc<ArcSwap<Trust>>,
    pending: Pending,
) {
    let config_maps: Api<ConfigMap> = Api::namespaced(host, NAMESPACE);
    let config = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
    let mut events = std::pin::pin!(watcher(config_maps, config).default_backoff());
    let mut pending = Some(pending);
    while let Some(event) = events.next().await {
        let map = match event {
            Ok(watcher::Event::InitApply(map) | watcher::Event::Apply(map)) => map,
            Ok(watcher::Event::Delete(_)) => {
                warn!(config_map = NAME, "deleted: what it said stays in force");
                continue;
            }
            Ok(watcher::Event::Init | watcher::Event::InitDone) => continue,
            Err(error) => {
                warn!(config_map = NAME, error = %error, "cannot be read: what it said stays in force");
                continue;
            }
        };
        let mut data = map.data.unwrap_or_default();
        data.extend(flags.clone());
        match Trust::parse(&data) {
            Ok(parsed) => {
                info!(
                    config_map = NAME,
                    front_proxy = parsed.front_proxy.is_some(),
                    "trusted roots are in force"
                );
                trust.store(Arc::new(parsed));
                pending.take();
            }
            Err(error) => {
                warn!(config_map = NAME, error = %error, "not understood: what it said stays in force")
            }
        }
    }
}

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
