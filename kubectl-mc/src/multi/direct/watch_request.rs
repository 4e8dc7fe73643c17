//! Reads the events of one watch request, until the server or the network ends it.

use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::parse;
use super::event_lines::{EventLines, Events};
use super::failure::{MemberFailure, Status};
use super::member::{Member, Query, next_data};

/// A watch that receives events.
pub(super) struct WatchRequest {
    body: Body,
    lines: EventLines,
}

/// Why a watch cannot simply resume.
pub(super) enum Gap {
    /// Its version has expired: the watch starts again with a list.
    Expired,
    Failed(MemberFailure),
}

impl From<MemberFailure> for Gap {
    fn from(failure: MemberFailure) -> Self {
        if failure.is_expired() { Self::Expired } else { Self::Failed(failure) }
    }
}

impl WatchRequest {
    /// Watches the objects of a query, starting at a version.
    pub(super) async fn open(
        member: &Member,
        path: &str,
        query: Query,
        version: &str,
        accept: &str,
    ) -> Result<Self, Gap> {
        let query = query.with("watch", "true").with("allowWatchBookmarks", "true");
        let query = query.with("resourceVersion", version);
        let body = member.open(&format!("{path}{query}"), accept).await?.into_body();
        Ok(Self { body, lines: EventLines::default() })
    }

    /// The next events. `None` if the server ends the watch, which it does after some minutes.
    pub(super) async fn next(&mut self) -> Result<Option<Events>, Gap> {
        let Some(data) = next_data(&mut self.body).await? else { return Ok(None) };
        Ok(Some(self.lines.take(&data)?))
    }
}

/// The type of an event, and its object. An error event ends the watch.
pub(super) fn parse_event(event: &[u8]) -> Result<(&str, &[u8]), Gap> {
    let Event { kind, object } = parse(event)?;
    let object = object.get().as_bytes();
    match kind {
        "ERROR" => Err(MemberFailure::of_status(parse::<Status>(object)?).into()),
        _ => Ok((kind, object)),
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_is_an_object_or_the_end_of_the_watch() {
        let (kind, object) = parse_event(br#"{"type": "ADDED", "object": {"a": 1}}"#).ok().unwrap();
        assert_eq!((kind, object), ("ADDED", &br#"{"a": 1}"#[..]));
        let error = |code: u16, reason: &str| {
            let status =
                serde_json::json!({"kind": "Status", "code": code, "reason": reason, "message": "m"});
            parse_event(serde_json::json!({"type": "ERROR", "object": status}).to_string().as_bytes()).err()
        };
        assert!(matches!(error(410, "Expired"), Some(Gap::Expired)));
        assert!(matches!(error(500, "InternalError"), Some(Gap::Failed(_))));
        assert!(matches!(parse_event(b"x").err(), Some(Gap::Failed(_))));
    }
}
