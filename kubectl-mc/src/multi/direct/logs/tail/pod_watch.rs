//! The pods of one cluster that match: listed, and watched from there. A watch that ends resumes from the last
//! version, and one whose version is too old starts again with a list.

use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;

use super::super::pods::Pod;
use super::Tail;
use super::plan::is_name;
use crate::multi::direct::event_lines::EventLines;
use crate::multi::direct::failure::{MemberFailure, Status};
use crate::multi::direct::member::{Member, Query};
use crate::multi::direct::pause::Pause;
use crate::multi::direct::server_table::parse;

/// What becomes of the pods.
pub(super) enum PodEvent {
    /// All that there are now.
    Listed(Vec<Pod>),
    Changed(Pod),
    Deleted(Pod),
    Remark(String),
}

/// The pods of a namespace, or of all.
pub(super) struct PodWatch<'a> {
    pub(super) tail: &'a Tail,
    pub(super) member: &'a Member,
    pub(super) namespace: Option<&'a str>,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(default)]
    items: Vec<Pod>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: ListMetadata,
}

/// Why one request of a watch came to its end.
enum Gap {
    /// The server ends every watch after some minutes, or nothing listens any more.
    Ended,
    Expired,
    Failed(MemberFailure),
}

impl PodWatch<'_> {
    /// All pods that match, and the version of the list.
    pub(super) async fn list(&self) -> Result<(Vec<Pod>, String), MemberFailure> {
        let mut pods = Vec::new();
        let mut next = String::new();
        loop {
            let token = Some(next.as_str()).filter(|next| !next.is_empty());
            let query = self.query().with("limit", CHUNK).with_some("continue", token);
            let body = self.member.get(&format!("{}{query}", self.path()), JSON).await?;
            let list: List = parse(&body)?;
            pods.extend(list.items.into_iter().filter(|pod| self.is_wanted(pod)));
            next = list.metadata.next;
            if next.is_empty() {
                return Ok((pods, list.metadata.resource_version));
            }
        }
    }

    /// Tells of the pods until nothing listens. The first list is tried again only for a cluster that is `late`.
    pub(super) async fn follow(&self, is_late: bool, sender: &Sender<PodEvent>) -> Result<(), MemberFailure> {
        let mut pause = Pause::default();
        let mut is_first = !is_late;
        while !sender.is_closed() {
            let version = match self.list().await {
                Ok((pods, version)) => {
                    let _ = sender.send(PodEvent::Listed(pods)).await;
                    version
                }
                Err(failure) if failure.is_passing() && !is_first => {
                    pause.wait().await;
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            is_first = false;
            self.follow_from(version, &mut pause, sender).await?;
        }
        Ok(())
    }

    /// Watches until the version has expired.
    async fn follow_from(
        &self,
        mut version: String,
        pause: &mut Pause,
        sender: &Sender<PodEvent>,
    ) -> Result<(), MemberFailure> {
        let mut is_lost = false;
        while !sender.is_closed() {
            let began = version.clone();
            match self.watch(&mut version, sender, &mut is_lost).await {
                Gap::Ended => {}
                Gap::Expired => {
                    pause.wait().await;
                    return Ok(());
                }
                Gap::Failed(failure) if failure.is_passing() => {
                    if !std::mem::replace(&mut is_lost, true) {
                        let remark = format!("- pods: lost: {failure}; trying again");
                        let _ = sender.send(PodEvent::Remark(remark)).await;
                    }
                }
                Gap::Failed(failure) => return Err(failure),
            }
            if version == began { pause.wait().await } else { *pause = Pause::default() }
        }
        Ok(())
    }

    /// One request, until it ends. The version moves on with what comes.
    async fn watch(&self, version: &mut String, sender: &Sender<PodEvent>, is_lost: &mut bool) -> Gap {
        let query = self.query().with("watch", "true").with("allowWatchBookmarks", "true");
        let query = query.with("resourceVersion", version);
        let mut body = match self.member.open(&format!("{}{query}", self.path()), JSON).await {
            Ok(response) => response.into_body(),
            Err(failure) if failure.is_expired() => return Gap::Expired,
            Err(failure) => return Gap::Failed(failure),
        };
        if std::mem::take(is_lost) {
            let _ = sender.send(PodEvent::Remark("- pods: the watch continues".to_owned())).await;
        }
        let mut lines = EventLines::default();
        loop {
            let frame = tokio::select! {
                biased;
                () = sender.closed() => return Gap::Ended,
                frame = body.frame() => frame,
            };
            let data = match frame {
                None => return Gap::Ended,
                Some(Err(error)) => return Gap::Failed(MemberFailure::BrokenOff(error.to_string().into())),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            let events = match lines.take(&data) {
                Ok(events) => events,
                Err(failure) => return Gap::Failed(failure),
            };
            for event in events.iter() {
                match self.event(event, version) {
                    Ok(Some(event)) => drop(sender.send(event).await),
                    Ok(None) => {}
                    Err(gap) => return gap,
                }
            }
        }
    }

    fn event(&self, event: &[u8], version: &mut String) -> Result<Option<PodEvent>, Gap> {
        let Event { kind, object } = parse(event).map_err(Gap::Failed)?;
        let object = object.get().as_bytes();
        match kind {
            "ERROR" => {
                let failure = MemberFailure::of_status(parse::<Status>(object).map_err(Gap::Failed)?);
                Err(if failure.is_expired() { Gap::Expired } else { Gap::Failed(failure) })
            }
            "BOOKMARK" => {
                let Bookmark { metadata } = parse(object).map_err(Gap::Failed)?;
                *version = metadata.resource_version;
                Ok(None)
            }
            _ => {
                let mut pod: Pod = parse(object).map_err(Gap::Failed)?;
                *version = std::mem::take(&mut pod.metadata.resource_version);
                let tell = if kind == "DELETED" { PodEvent::Deleted } else { PodEvent::Changed };
                Ok(self.is_wanted(&pod).then(|| tell(pod)))
            }
        }
    }

    fn is_wanted(&self, pod: &Pod) -> bool {
        let metadata = &pod.metadata;
        is_name(&metadata.name)
            && is_name(&metadata.namespace)
            && self.tail.plan.pods.want(metadata.name.as_bytes())
    }

    fn path(&self) -> String {
        match self.namespace {
            Some(namespace) => format!("/api/v1/namespaces/{namespace}/pods"),
            None => "/api/v1/pods".to_owned(),
        }
    }

    fn query(&self) -> Query {
        let plan = &self.tail.plan;
        Query::default()
            .with_some("labelSelector", plan.selector.as_deref())
            .with_some("fieldSelector", plan.field_selector.as_deref())
    }
}

const CHUNK: &str = "500";
const JSON: &str = "application/json";
