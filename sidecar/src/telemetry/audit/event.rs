//! The format of an event: JSON of `audit.k8s.io/v1`, or upstream's one line of text (apiserver:
//! `pkg/audit/format.go`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use clap::ValueEnum;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::head::request_info::RequestedObject;
use crate::identity::Identity;

/// When an event of a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Stage {
    /// The caller is known, and the sidecar has not acted yet.
    RequestReceived,
    /// The head of the answer to a long-running request is sent.
    ResponseStarted,
    ResponseComplete,
    Panic,
}

/// How events are written to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Json,
    /// One line of text.
    Legacy,
}

/// `audit.k8s.io/v1 Event`
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event<'a> {
    pub(super) kind: &'static str,
    pub(super) api_version: &'static str,
    pub(super) level: &'static str,
    #[serde(rename = "auditID")]
    pub(super) audit_id: String,
    pub(super) stage: Stage,
    #[serde(rename = "requestURI")]
    pub(super) request_uri: &'a str,
    pub(super) verb: &'a str,
    pub(super) user: User<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) impersonated_user: Option<User<'a>>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "<[_]>::is_empty")]
    pub(super) source_ips: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) user_agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) object_ref: Option<ObjectRef<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_status: Option<ResponseStatus<'a>>,
    #[serde(serialize_with = "micro")]
    pub(super) request_received_timestamp: Timestamp,
    #[serde(serialize_with = "micro")]
    pub(super) stage_timestamp: Timestamp,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<&'static str, Cow<'a, str>>,
}

/// `authentication.k8s.io/v1 UserInfo`
#[derive(Debug, Default, Serialize)]
pub(super) struct User<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<&'a BTreeMap<String, Vec<String>>>,
}

impl<'a> User<'a> {
    pub(super) fn new(identity: &'a Identity) -> Self {
        Self {
            username: &identity.user,
            uid: identity.uid.as_deref(),
            groups: &identity.groups,
            extra: Some(&identity.extra).filter(|extra| !extra.is_empty()),
        }
    }
}

/// `audit.k8s.io/v1 ObjectReference`
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectRef<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    subresource: &'a str,
}

impl<'a> From<&'a RequestedObject> for ObjectRef<'a> {
    fn from(object: &'a RequestedObject) -> Self {
        let RequestedObject { group, version, namespace, resource, name, subresource } = object;
        Self { resource, namespace, name, api_group: group, api_version: version, subresource }
    }
}

/// The fields of `metav1.Status` that are recorded.
#[derive(Debug, Serialize)]
pub(super) struct ResponseStatus<'a> {
    pub(super) metadata: Empty,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<&'static str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) reason: &'a str,
    pub(super) code: u16,
}

#[derive(Debug, Serialize)]
pub(super) struct Empty {}

/// An event in the formats that the backends store.
#[derive(Clone, Debug)]
pub(super) struct Rendered {
    pub(super) json: Bytes,
    pub(super) legacy: Option<Bytes>,
}

impl Event<'_> {
    pub(super) fn render(&self, is_legacy_wanted: bool) -> Rendered {
        let mut json = Vec::with_capacity(TYPICAL_SIZE);
        // A struct of strings and numbers always serializes, and writing to a Vec cannot fail.
        let _ = serde_json::to_writer(&mut json, self);
        Rendered { json: json.into(), legacy: is_legacy_wanted.then(|| self.legacy().into()) }
    }

    fn legacy(&self) -> String {
        let list =
            |groups: &[String]| groups.iter().map(|group| format!("{group:?}")).collect::<Vec<_>>().join(",");
        let (user, groups) = match (self.user.username, self.user.groups) {
            ("", _) => ("<none>", "<none>".to_owned()),
            (user, []) => (user, "<none>".to_owned()),
            (user, groups) => (user, list(groups)),
        };
        let (as_user, as_groups) = match &self.impersonated_user {
            Some(user) => (user.username, list(user.groups)),
            None => ("<self>", "<lookup>".to_owned()),
        };
        let namespace = self.object_ref.as_ref().map_or("", |object| object.namespace);
        let namespace = if namespace.is_empty() { "<none>" } else { namespace };
        let response = match &self.response_status {
            Some(status) => status.code.to_string(),
            None => "<deferred>".to_owned(),
        };
        let ip = self.source_ips.first().map_or("<unknown>", String::as_str);
        format!(
            "{} AUDIT: id={:?} stage=\"{:?}\" ip={ip:?} method={:?} user={user:?} groups={groups:?} as={as_user:?} \
             asgroups={as_groups:?} user-agent={:?} namespace={namespace:?} uri={:?} response={response:?}",
            self.request_received_timestamp,
            self.audit_id,
            self.stage,
            self.verb,
            self.user_agent,
            self.request_uri,
        )
    }
}

/// `metav1.MicroTime`
fn micro<S: serde::Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{time:.6}"))
}

/// Most events are smaller.
const TYPICAL_SIZE: usize = 2048;

pub(super) const KIND: &str = "Event";
pub(super) const API_VERSION: &str = "audit.k8s.io/v1";
pub(super) const LEVEL: &str = "Metadata";

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected text is the output of upstream's function for the same event (`tests/audit`).
    #[test]
    fn legacy_line_matches_upstream() {
        let identity = |user: &str, groups: &[&str]| Identity {
            user: user.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            ..Identity::default()
        };
        let (jane, bob) = (identity("jane", &["a", "b"]), identity("bob", &[]));
        let object = RequestedObject { namespace: "ns".to_owned(), ..RequestedObject::default() };
        let event = |impersonated_user| Event {
            kind: KIND,
            api_version: API_VERSION,
            level: LEVEL,
            audit_id: "id".to_owned(),
            stage: Stage::ResponseComplete,
            request_uri: "/x?y=\"",
            verb: "list",
            user: User::new(&jane),
            impersonated_user,
            source_ips: &[],
            user_agent: "kubectl",
            object_ref: Some((&object).into()),
            response_status: None,
            request_received_timestamp: "2026-11-25T03:00:00.120Z".parse().unwrap(),
            stage_timestamp: "2026-11-25T03:00:01Z".parse().unwrap(),
            annotations: BTreeMap::new(),
        };
        assert_eq!(
            event(None).legacy(),
            r#"2026-11-25T03:00:00.12Z AUDIT: id="id" stage="ResponseComplete" ip="<unknown>" method="list" user="jane" groups="\"a\",\"b\"" as="<self>" asgroups="<lookup>" user-agent="kubectl" namespace="ns" uri="/x?y=\"" response="<deferred>""#
        );
        assert!(event(Some(User::new(&bob))).legacy().contains(r#"as="bob" asgroups="""#));
    }
}
