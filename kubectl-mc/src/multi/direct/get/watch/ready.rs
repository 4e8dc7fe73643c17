//! The clusters that the host lists as Ready, followed by a watch of the host's `clusters` while a command runs.

use std::collections::BTreeSet;
use std::time::Duration;

use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::client::Body;
use kubectl_mc_api::{ClusterName, path};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::multi::direct::Task;
use crate::multi::direct::login::Login;
use crate::multi::ordered_output::Abort;
use crate::multi::selection::{Readiness, SelectedCluster};

pub(super) type Names = BTreeSet<ClusterName>;

/// Those that are Ready of the clusters of a task that were not.
pub(super) struct ReadyClusters {
    names: watch::Sender<Names>,
    _following: Option<Abort<()>>,
}

impl ReadyClusters {
    /// Follows them until this is dropped.
    pub(super) fn follow(login: &Login, task: &Task<'_>) -> Self {
        let names = watch::Sender::new(Names::new());
        let wanted: Names = task.not_ready.iter().map(|(name, _)| name.clone()).collect();
        let following = (!wanted.is_empty()).then(|| {
            let (login, sender) = (login.clone(), names.clone());
            Abort(tokio::spawn(async move {
                loop {
                    // A host that does not answer is asked again, as is one that ends the watch.
                    let _ = follow(&login, &wanted, &sender).await;
                    tokio::time::sleep(PAUSE).await;
                }
            }))
        });
        Self { names, _following: following }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Names> {
        self.names.subscribe()
    }
}

#[derive(Deserialize)]
struct Event {
    object: Value,
}

/// One watch, to its end. It begins with all clusters that there are.
async fn follow(login: &Login, wanted: &Names, ready: &watch::Sender<Names>) -> Option<()> {
    let (client, round) = login.client();
    let request = Request::get(format!("{}?watch=true", path::CLUSTERS_PATH))
        .header(header::ACCEPT, "application/json")
        .body(Body::empty())
        .ok()?;
    let response = client.send(request).await.ok()?;
    if response.status() == StatusCode::UNAUTHORIZED {
        let _ = login.renew(round).await;
    }
    if !response.status().is_success() {
        return None;
    }
    let mut body = response.into_body();
    let mut pending: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        pending.extend_from_slice(&frame.ok()?.into_data().unwrap_or_default());
        let end = pending.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in pending[..end].split(|byte| *byte == b'\n') {
            let Ok(Event { object }) = serde_json::from_slice(line) else { continue };
            let clusters = SelectedCluster::of_list(&json!({"items": [object]}));
            let is_ready = |cluster: &SelectedCluster| {
                cluster.listed.as_ref().is_some_and(|listed| listed.ready == Readiness::Ready)
            };
            let names = clusters.into_iter().filter(is_ready).map(|cluster| cluster.name);
            let names: Vec<_> = names.filter(|name| wanted.contains(name)).collect();
            if !names.is_empty() {
                ready.send_modify(|ready| ready.extend(names));
            }
        }
        pending.drain(..end);
        if pending.len() > MAX_EVENT {
            return None;
        }
    }
    Some(())
}

const PAUSE: Duration = Duration::from_secs(5);
/// An object is at most 1.5 MiB in etcd.
const MAX_EVENT: usize = 16 * 1024 * 1024;
