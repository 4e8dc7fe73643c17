//! Detects clusters that become Ready, or newly match the choice of a command, while the command runs. It
//! watches the host's `clusters`, and queries the host again to resolve labels and sets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::client::Body;
use kubectl_mc_api::dialect::Dialect;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::event_lines::EventLines;
use super::login::Login;
use super::member::next_data;
use super::task::Task;
use crate::cluster::cluster_id::ClusterId;
use crate::multi::ordered_output::Abort;
use crate::multi::selection::{Growth, Lists, Readiness, SelectedCluster};
use crate::server_text::ServerText;

pub(super) type Names = BTreeSet<ClusterId>;

/// The clusters that have become Ready since the start, and those that newly match the choice.
pub(super) struct Arrivals {
    names: watch::Sender<Names>,
    following: Option<Abort<()>>,
}

impl Arrivals {
    /// Follows arrivals until the returned value is dropped.
    pub(super) fn follow(login: &Login, task: &Task<'_>) -> Self {
        let names = watch::Sender::new(Names::new());
        let host = task.reach.host.as_ref();
        let dialect = host.map(|host| host.through.hub.dialect.clone()).unwrap_or_default();
        let is_watched = dialect.has_watch();
        let mut follower = Follower {
            login: login.clone(),
            awaited: task.not_ready.iter().map(|(name, _)| name.clone()).collect(),
            known: task.clusters.iter().cloned().collect(),
            growth: task.growth.cloned(),
            dialect,
            arrived: names.clone(),
        };
        let is_needed = is_watched && (!follower.awaited.is_empty() || follower.growth.is_some());
        let following = is_needed.then(|| {
            Abort(tokio::spawn(async move {
                loop {
                    // Retries if the host does not respond or ends the watch.
                    let _ = follower.follow().await;
                    tokio::time::sleep(PAUSE).await;
                }
            }))
        });
        Self { names, following }
    }

    /// A receiver for all arrivals; `None` if there can be none.
    pub(super) fn subscribe(&self) -> Option<watch::Receiver<Names>> {
        self.following.as_ref().map(|_| self.names.subscribe())
    }
}

struct Follower {
    login: Login,
    /// Clusters of the command that were not Ready.
    awaited: Names,
    /// All clusters of the command at its start.
    known: Names,
    growth: Option<Growth>,
    dialect: Dialect,
    arrived: watch::Sender<Names>,
}

#[derive(Deserialize)]
struct Event {
    object: Value,
}

impl Follower {
    /// Runs one watch to its end. It begins with all existing clusters.
    async fn follow(&mut self) -> Option<()> {
        let mut body = self.open("?watch=true").await?;
        let mut lines = EventLines::default();
        // Clusters outside the selection, with their labels at that time.
        let mut others = BTreeMap::new();
        while let Some(data) = next_data(&mut body).await.ok()? {
            let events = lines.take(&data).ok()?;
            let mut is_new = false;
            for event in events.iter() {
                let Ok(Event { object }) = serde_json::from_slice(event) else { continue };
                let object = match &self.dialect {
                    Dialect::Own => object,
                    dialect => dialect.cluster_of(&object).unwrap_or_default(),
                };
                for cluster in SelectedCluster::of_list(&json!({"items": [object]})) {
                    is_new |= self.look_at(cluster, &mut others);
                }
            }
            if is_new {
                self.grow().await?;
            }
        }
        Some(())
    }

    /// Checks whether the cluster may newly match the choice.
    fn look_at(
        &self,
        cluster: SelectedCluster,
        others: &mut BTreeMap<ClusterId, BTreeMap<ServerText, ServerText>>,
    ) -> bool {
        if !is_ready(&cluster) {
            return false;
        }
        if self.awaited.contains(&cluster.name) {
            self.arrived.send_if_modified(|arrived| arrived.insert(cluster.name));
            return false;
        }
        if self.growth.is_none()
            || self.known.contains(&cluster.name)
            || self.arrived.borrow().contains(&cluster.name)
        {
            return false;
        }
        let labels = cluster.listed.unwrap_or_default().labels;
        others.insert(cluster.name, labels.clone()).as_ref() != Some(&labels)
    }

    /// Resolves the choice again.
    async fn grow(&self) -> Option<()> {
        let Some(growth) = &self.growth else { return Some(()) };
        let mut lists = Lists::new();
        let chosen = loop {
            match growth.resolve(&lists) {
                Ok(chosen) => break chosen,
                Err(selector) => {
                    let list = self.list(selector.as_deref()).await?;
                    lists.insert(selector, list);
                }
            }
        };
        let joined =
            chosen.into_iter().filter(|cluster| is_ready(cluster) && !self.known.contains(&cluster.name));
        let joined: Vec<_> = joined.map(|cluster| cluster.name).collect();
        self.arrived.send_if_modified(|arrived| {
            let before = arrived.len();
            arrived.extend(joined);
            arrived.len() > before
        });
        Some(())
    }

    async fn list(&self, selector: Option<&str>) -> Option<Vec<SelectedCluster>> {
        let query = selector.map_or_else(String::new, |selector| {
            format!("?labelSelector={}", utf8_percent_encode(selector, NON_ALPHANUMERIC))
        });
        let body = self.open(&query).await?.collect().await.ok()?.to_bytes();
        let list: Value = serde_json::from_slice(&body).ok()?;
        Some(SelectedCluster::of_list(&match &self.dialect {
            Dialect::Own => list,
            dialect => json!({"items": dialect.view(&list).clusters}),
        }))
    }

    async fn open(&self, query: &str) -> Option<Body> {
        let (client, round) = self.login.client().await.ok()?;
        let request = Request::get(format!("{}{query}", self.dialect.list_path()?))
            .header(header::ACCEPT, "application/json")
            .body(Body::empty())
            .ok()?;
        let response = client.send(request).await.ok()?;
        if response.status() == StatusCode::UNAUTHORIZED {
            let _ = self.login.renew(round).await;
        }
        response.status().is_success().then(|| response.into_body())
    }
}

fn is_ready(cluster: &SelectedCluster) -> bool {
    cluster.listed.as_ref().is_some_and(|listed| listed.ready == Readiness::Ready)
}

const PAUSE: Duration = Duration::from_secs(5);
