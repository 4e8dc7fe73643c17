//! Fetches discovery and OpenAPI of the group from the server behind the sidecar, at the start and every
//! minute. While the server is unreachable, its last documents stay published, because the host needs
//! discovery to delete a namespace.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use kubectl_mc_api::Origin;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::{Error, HubServer, INTERVAL};
use crate::endpoints::discovery::{Documents, OfServer};
use crate::identity::{AUTHENTICATED, Identity};

/// Fetches the documents periodically, and publishes changes.
pub(super) async fn follow(server: &HubServer, published: &ArcSwap<Documents>) {
    let mut known: Option<OfServer> = None;
    let mut pause = FIRST_PAUSE;
    let (mut failed, mut unreadable) = (false, false);
    loop {
        match server.reload() {
            Ok(()) => unreadable = false,
            Err(error) if !unreadable => {
                unreadable = true;
                warn!(%error, "cannot read the certificates for karmada-aggregated-apiserver again");
            }
            Err(_) => {}
        }
        match timeout(TIMEOUT, documents(server)).await.unwrap_or(Err(Error::Late)) {
            Ok(documents) => {
                if failed || known.is_none() {
                    info!("karmada-aggregated-apiserver answers");
                }
                (failed, pause) = (false, INTERVAL);
                if known.as_ref() != Some(&documents) {
                    published.store(Arc::new(Documents::with_server(&documents)));
                    known = Some(documents);
                }
            }
            Err(error) => {
                if !failed {
                    warn!(%error, "cannot read the discovery documents of karmada-aggregated-apiserver");
                }
                (failed, pause) = (true, (pause * 2).min(MAX_PAUSE));
            }
        }
        sleep(pause).await;
    }
}

async fn documents(server: &HubServer) -> Result<OfServer, Error> {
    // Every user of the host may read these.
    let reader = Identity {
        user: "kubectl-mc".to_owned(),
        groups: vec![AUTHENTICATED.to_owned()],
        ..Identity::default()
    };
    let hub = Origin::Karmada;
    let version = format!("/apis/{}/{}", hub.grant_group(), hub.grant_version());
    let get = async |path: &str| {
        let document = server.get(path, &reader).await?;
        document.ok_or_else(|| Error::Invalid(format!("it has no {path}")))
    };
    let group = get(&format!("/apis/{}", hub.grant_group())).await?;
    let resources = get(&version).await?;
    let aggregated = server.get_as("/apis", AGGREGATED, &reader).await?;
    let aggregated: Value =
        aggregated.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let items = aggregated["items"].as_array().cloned().unwrap_or_default();
    let is_of_hub = |item: &Value| item["metadata"]["name"] == hub.grant_group();
    let aggregated = items.into_iter().find(is_of_hub);
    let aggregated = aggregated.ok_or_else(|| Error::invalid("its aggregated discovery lacks its group"))?;
    let openapi_v2 = get("/openapi/v2").await?;
    let openapi_v3 = get(&format!("/openapi/v3{version}")).await?;
    Ok(OfServer { origin: hub, group, resources, aggregated, openapi_v2, openapi_v3 })
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// Timeout of all documents.
const TIMEOUT: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(15);
