//! Watches resume where they ended, as informers do, and neither miss nor repeat an object.

use std::sync::mpsc::Receiver;

use anyhow::{Context, Result, ensure};
use harness::bed::bed;
use harness::caller::Caller;
use harness::http1::{Connection, Endpoint, PATIENCE, member_path};
use serde_json::Value;

use super::replicas::Serving;
use super::{MEMBER, Tally, add, configmaps};

/// The route of a watch to the member.
pub(super) enum Way {
    Host(Endpoint),
    Past(Receiver<Serving>, Serving),
}

impl Way {
    pub(super) fn new(through_the_host: bool, caller: &Caller, replicas: Receiver<Serving>) -> Result<Self> {
        if through_the_host {
            return Ok(Self::Host(Endpoint::cluster(&bed()?.host, caller.certificate.as_deref())?));
        }
        Ok(Self::Past(replicas, Serving::new()))
    }

    fn connect(&mut self) -> Result<Connection> {
        match self {
            Self::Host(host) => host.connect(),
            Self::Past(replicas, serving) => {
                if let Some(now) = replicas.try_iter().last() {
                    *serving = now;
                }
                serving.rotate_left(1);
                serving.first().context("no replica serves")?.connect()
            }
        }
    }
}

/// Follows all objects created after `since`, until [`LAST`]. Returns their names in order of arrival.
pub(super) fn follow(mut way: Way, namespace: &str, mut since: String, tally: &Tally) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let opened = open(&mut way, namespace, &since);
        let Some(mut watch) = tally.judge("a watch", opened) else { return seen };
        // A replica that ends breaks off its open watches. That is not a failure; only a watch that
        // cannot resume is.
        loop {
            let Ok(Some(event)) = next(&mut watch) else { break };
            if event["type"] == "ERROR" {
                tally.wrong(format!("a watch was told {event}"));
                return seen;
            }
            let metadata = &event["object"]["metadata"];
            since = metadata["resourceVersion"].as_str().unwrap_or_default().to_owned();
            if event["type"] == "ADDED" {
                seen.push(metadata["name"].as_str().unwrap_or_default().to_owned());
                if metadata["name"] == LAST {
                    return seen;
                }
            }
        }
        if tally.over.get().is_some_and(|over| over.elapsed() > PATIENCE) {
            tally.wrong("a watch waits in vain for the last object".to_owned());
            return seen;
        }
        add(&tally.watched_on);
    }
}

struct Watch {
    connection: Connection,
    read: Vec<u8>,
}

fn open(way: &mut Way, namespace: &str, since: &str) -> Result<Watch> {
    let query = format!("watch=1&labelSelector=endurance%3Dyes&resourceVersion={since}");
    let path = member_path(MEMBER, &configmaps(namespace));
    let mut connection = way.connect()?;
    connection.send(format!("GET {path}?{query} HTTP/1.1\r\nHost: cluster\r\n\r\n").as_bytes())?;
    let head = connection.head()?;
    ensure!(head.status == 200, "answered {}: {:?}", head.status, head.lines);
    Ok(Watch { connection, read: Vec::new() })
}

/// The next event, or `None` at the end of the watch.
fn next(watch: &mut Watch) -> Result<Option<Value>> {
    loop {
        if let Some(end) = watch.read.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = watch.read.drain(..=end).collect();
            return Ok(Some(serde_json::from_slice(&line)?));
        }
        let chunk = watch.connection.chunk()?;
        if chunk.is_empty() {
            return Ok(None);
        }
        watch.read.extend(chunk);
    }
}

/// The last object.
pub(super) const LAST: &str = "the-last-one";
