//! Lists the matching pods of one cluster and watches them from there. A watch that ends resumes from the
//! last version, and an expired one starts again with a list.

use serde::Deserialize;
use tokio::sync::mpsc::Sender;

use super::super::pods::Pod;
use super::line::Tail;
use crate::multi::direct::answer::{self, ListMeta, Page, parse};
use crate::multi::direct::member::{Member, Query};
use crate::multi::direct::pages::Pages;
use crate::multi::direct::path_name::is_name;
use crate::multi::direct::watch_request::{Gap, WatchRequest, parse_event};
use crate::multi::fault::Fault;
use crate::multi::pause::Pause;

/// A change of the pods.
pub(super) enum PodEvent {
    /// All current pods.
    Listed(Vec<Pod>),
    Changed(Pod),
    Deleted(Pod),
    Remark(String),
}

/// The pods of one namespace, or of all.
pub(super) struct PodWatch<'a> {
    pub(super) tail: &'a Tail,
    pub(super) member: &'a Member,
    pub(super) namespace: Option<&'a str>,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: ListMeta,
}

impl PodWatch<'_> {
    /// All matching pods, and the version of the list.
    pub(super) async fn list(&self) -> Result<(Vec<Pod>, String), Fault> {
        let mut pods = Vec::new();
        let mut pages = Pages::default();
        loop {
            let query = pages.query(self.query());
            let body = self.member.get(&format!("{}{query}", self.path()), JSON).await?;
            let list: Page<Pod> = answer::list(&body)?;
            pods.extend(list.items.into_iter().filter(|pod| self.is_wanted(pod)));
            if !pages.has_next(list.metadata.next)? {
                return Ok((pods, list.metadata.resource_version));
            }
        }
    }

    /// Reports the pods until the receiver is gone. The first list is retried only for a cluster that is
    /// `late`.
    pub(super) async fn follow(&self, is_late: bool, sender: &Sender<PodEvent>) -> Result<(), Fault> {
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
    ) -> Result<(), Fault> {
        let mut is_lost = false;
        while !sender.is_closed() {
            let began = version.clone();
            match self.watch(&mut version, sender, &mut is_lost).await {
                Ok(()) => {}
                Err(Gap::Expired) => {
                    pause.wait().await;
                    return Ok(());
                }
                Err(Gap::Failed(failure)) if failure.is_passing() => {
                    if !std::mem::replace(&mut is_lost, true) {
                        let remark = format!("- pods: lost: {failure}; trying again");
                        let _ = sender.send(PodEvent::Remark(remark)).await;
                    }
                }
                Err(Gap::Failed(failure)) => return Err(failure),
            }
            if version == began { pause.wait().await } else { *pause = Pause::default() }
        }
        Ok(())
    }

    /// Runs one watch request until it ends or the receiver is gone. Advances the version with each event.
    async fn watch(
        &self,
        version: &mut String,
        sender: &Sender<PodEvent>,
        is_lost: &mut bool,
    ) -> Result<(), Gap> {
        let mut watch = WatchRequest::open(self.member, &self.path(), self.query(), version, JSON).await?;
        if std::mem::take(is_lost) {
            let _ = sender.send(PodEvent::Remark("- pods: the watch continues".to_owned())).await;
        }
        loop {
            let events = tokio::select! {
                biased;
                () = sender.closed() => return Ok(()),
                events = watch.next() => events?,
            };
            let Some(events) = events else { return Ok(()) };
            for event in events.iter() {
                if let Some(event) = self.event(event, version)? {
                    let _ = sender.send(event).await;
                }
            }
        }
    }

    fn event(&self, event: &[u8], version: &mut String) -> Result<Option<PodEvent>, Gap> {
        let (kind, object) = parse_event(event)?;
        if kind == "BOOKMARK" {
            let Bookmark { metadata } = parse(object)?;
            *version = metadata.resource_version;
            return Ok(None);
        }
        let mut pod: Pod = parse(object)?;
        *version = std::mem::take(&mut pod.metadata.resource_version);
        let tell = if kind == "DELETED" { PodEvent::Deleted } else { PodEvent::Changed };
        Ok(self.is_wanted(&pod).then(|| tell(pod)))
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

const JSON: &str = "application/json";
