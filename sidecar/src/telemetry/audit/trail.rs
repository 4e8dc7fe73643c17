//! Collects the audit state of one request, and creates its events.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method, Request, StatusCode, Uri};
use jiff::Timestamp;
use kubectl_mc_api::{ClusterName, Hop};

use super::attributes::Attributes;
use super::auditor::{Auditor, NotStored};
use super::backend::Backend;
use super::event::{self, Empty, Event, Rendered, ResponseStatus, Stage, User};
use super::policy::Recorded;
use super::queue::Share;
use super::redact;
use super::redact::Shown;
use crate::head::request_info::RequestInfo;
use crate::identity::Identity;
use crate::identity::authentication::CredentialKinds;

/// The audit state of one request, from its head to its end.
#[derive(Debug)]
pub struct Trail {
    auditor: Arc<Auditor>,
    received: Timestamp,
    method: Method,
    uri: Uri,
    source_ips: Vec<String>,
    user_agent: String,
    attributes: Option<Attributes>,
    user: Option<Arc<Identity>>,
    impersonated: Option<Arc<Identity>>,
    recorded: Recorded,
    is_failed_login: bool,
    share: Share,
    has_panicked: bool,
    decision: Option<Decision>,
    refusal: Option<Refusal>,
    code: Option<StatusCode>,
    tunnel: Option<TunnelEnd>,
    /// The members of a merged request, and those that are missing in the answer.
    members: Option<[String; 2]>,
}

/// The host's decision about the request.
#[derive(Debug)]
struct Decision {
    is_allowed: bool,
    reason: Arc<str>,
}

/// An error of the sidecar.
#[derive(Debug)]
struct Refusal {
    reason: &'static str,
    message: String,
}

/// The end of an upgraded connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelEnd {
    /// Keyed by the names of annotations.
    pub bytes: [(&'static str, u64); 2],
    pub reason: &'static str,
}

/// An event that a request must wait for.
#[derive(Debug)]
pub struct Pending {
    auditor: Arc<Auditor>,
    event: Option<Rendered>,
}

impl Pending {
    /// Waits until the event is stored, or the request is `due`. Returns whether the backends have room for
    /// the request.
    ///
    /// # Errors
    ///
    /// The event was not stored, and the mode of a backend requires it.
    pub async fn store(self, due: Option<Instant>) -> Result<bool, NotStored> {
        self.auditor.begin(self.event, due).await
    }
}

impl Trail {
    /// Starts before authentication. `is_forwarded` means that the peer is the host, so its
    /// `X-Forwarded-For` is used.
    pub fn begin<B>(auditor: Arc<Auditor>, request: &Request<B>, peer: IpAddr, is_forwarded: bool) -> Self {
        let mut source_ips = if is_forwarded { forwarded_for(request.headers()) } else { Vec::new() };
        source_ips.push(peer.to_canonical().to_string());
        source_ips.dedup();
        Self {
            auditor,
            received: Timestamp::now(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            source_ips,
            user_agent: redact::user_agent(request.headers()),
            attributes: None,
            user: None,
            impersonated: None,
            recorded: Recorded::default(),
            is_failed_login: false,
            share: Share::Refused,
            has_panicked: false,
            decision: None,
            refusal: None,
            code: None,
            tunnel: None,
            members: None,
        }
    }

    /// Adds the attributes. An invalid request is recorded without them.
    pub fn understood(&mut self, info: &RequestInfo) {
        let (path, query) = (self.uri.path(), self.uri.query());
        self.attributes = Some(Attributes::new(info, &self.method, path, query));
    }

    /// Replaces the attributes by those of the request to the member that the body names.
    pub fn is_for_member(&mut self, info: &RequestInfo) {
        self.understood(info);
        self.evaluate();
    }

    /// Adds the authenticated user.
    pub fn logged_in(&mut self, user: &Arc<Identity>) {
        self.user = Some(user.clone());
        self.evaluate();
    }

    /// The event of the start, which must be stored before the request continues. `None` if the request is
    /// not recorded.
    pub fn beginning(&self, audit_id: &dyn ToString) -> Option<Pending> {
        if !self.recorded.is_recorded {
            return None;
        }
        let stage = Stage::RequestReceived;
        let event = self.recorded.has(stage).then(|| self.render(stage, audit_id, &[]));
        if event.is_some() {
            self.auditor.metrics.events.inc();
        }
        Some(Pending { auditor: self.auditor.clone(), event })
    }

    /// Notes that the request continues, with or without room reserved for its later events.
    pub fn begun(&mut self, has_room: bool) {
        self.share = if has_room { Share::Begun } else { Share::All };
    }

    /// Adds a failed login with the attempted kinds of credential.
    pub fn login_failed(&mut self, attempted: CredentialKinds) {
        self.is_failed_login = true;
        self.evaluate();
        let message = format!("Authentication failed, {attempted}");
        self.refusal = Some(Refusal { reason: "Unauthorized", message });
    }

    /// Adds the identity with which the request is forwarded.
    pub fn acts_as(&mut self, identity: &Arc<Identity>) {
        if self.user.as_ref().is_some_and(|user| !Arc::ptr_eq(user, identity)) {
            self.impersonated = Some(identity.clone());
        }
    }

    /// Adds the host's decision.
    pub fn decided(&mut self, is_allowed: bool, reason: Arc<str>) {
        self.decision = Some(Decision { is_allowed, reason });
    }

    /// Adds the members of a merged request.
    pub fn of_fleet<'a>(&mut self, members: impl Iterator<Item = &'a ClusterName>) {
        self.members = Some([names(members), String::new()]);
    }

    /// Adds the members whose part is missing in a merged answer.
    pub fn missing<'a>(&mut self, members: impl Iterator<Item = &'a ClusterName>) {
        if let Some([_, missing]) = &mut self.members {
            *missing = names(members);
        }
    }

    /// Adds an error of the sidecar.
    pub fn refused(&mut self, reason: &'static str, message: String) {
        if !self.is_failed_login {
            self.refusal = Some(Refusal { reason, message: redact::without_queries(&message) });
        }
    }

    /// Adds the head of the answer. For a long-running request this is an event.
    pub fn answered(&mut self, code: StatusCode, audit_id: &dyn ToString) {
        self.code = Some(code);
        let is_lasting = self.attributes.as_ref().is_some_and(|attributes| attributes.is_long_running);
        if (is_lasting || self.is_failed_login) && !self.has_panicked {
            self.emit(Stage::ResponseStarted, audit_id, &[]);
        }
    }

    /// Adds the end of an upgraded connection.
    pub fn tunnel_ended(&mut self, end: TunnelEnd) {
        self.tunnel = Some(end);
    }

    /// Records a panic; no other event follows.
    pub fn panicked(&mut self, audit_id: &dyn ToString) {
        if !self.has_panicked {
            self.has_panicked = true;
            self.evaluate_unless_known();
            self.code = Some(StatusCode::INTERNAL_SERVER_ERROR);
            self.refusal =
                Some(Refusal { reason: "InternalError", message: "the sidecar panicked".to_owned() });
            self.emit(Stage::Panic, audit_id, &[]);
        }
    }

    /// Records the end of the request; `end` is the reason why a long-running one was ended.
    pub fn ended(
        &mut self,
        audit_id: &dyn ToString,
        hop: Option<Hop>,
        elapsed: Duration,
        end: Option<&'static str>,
    ) {
        if self.has_panicked || self.is_failed_login {
            return;
        }
        let mut annotations = Vec::new();
        if let Some(hop) = hop {
            annotations.push((HOP, Cow::from(hop.as_str())));
        }
        annotations.push((DURATION, Cow::from(format!("{:.6}", elapsed.as_secs_f64()))));
        if let Some(TunnelEnd { bytes, reason }) = self.tunnel {
            annotations.extend(bytes.map(|(name, count)| (name, Cow::from(count.to_string()))));
            annotations.push((END, Cow::from(reason)));
        } else if let Some(end) = end {
            annotations.push((END, Cow::from(end)));
        } else if self.code.is_none() {
            annotations.push((END, Cow::from("no answer")));
        }
        self.evaluate_unless_known();
        self.emit(Stage::ResponseComplete, audit_id, &annotations);
    }

    /// Evaluates the policy for a request that ended before its login.
    fn evaluate_unless_known(&mut self) {
        if self.user.is_none() && self.attributes.as_ref().is_none_or(|attributes| !attributes.is_public) {
            self.evaluate();
        }
    }

    fn evaluate(&mut self) {
        let unknown;
        let attributes = match &self.attributes {
            Some(attributes) => attributes,
            None => {
                unknown = Attributes {
                    verb: self.method.as_str().to_ascii_lowercase(),
                    cluster: None,
                    object: None,
                    path: self.uri.path().to_owned(),
                    is_long_running: false,
                    is_public: false,
                };
                &unknown
            }
        };
        self.recorded = self.auditor.policy.evaluate(attributes, self.user.as_deref());
        self.auditor.metrics.evaluated(self.recorded.is_recorded);
    }

    /// How much of the query events show. The sidecar redacts what a member could take for an exec: every `exec`
    /// subresource, and a request that the sidecar could not parse.
    fn shown(&self) -> Shown {
        match &self.attributes {
            _ if !self.auditor.redacts_exec_arguments => Shown::Parameters,
            None => Shown::Nothing,
            Some(attributes) if attributes.is_exec() => Shown::NoCommand,
            Some(_) => Shown::Parameters,
        }
    }

    fn emit(&self, stage: Stage, audit_id: &dyn ToString, annotations: &[(&'static str, Cow<'_, str>)]) {
        if self.recorded.has(stage) {
            self.auditor.metrics.events.inc();
            self.auditor.queue(&self.render(stage, audit_id, annotations), self.share);
        }
    }

    fn render(
        &self,
        stage: Stage,
        audit_id: &dyn ToString,
        more: &[(&'static str, Cow<'_, str>)],
    ) -> Rendered {
        let mut annotations: BTreeMap<&'static str, Cow<'_, str>> =
            more.iter().map(|(key, value)| (*key, value.clone())).collect();
        annotations.insert(REPLICA, Cow::from(&self.auditor.replica));
        if let Some(Decision { is_allowed, reason }) = &self.decision {
            annotations.insert(DECISION, Cow::from(if *is_allowed { "allow" } else { "forbid" }));
            annotations.insert(REASON, Cow::from(&**reason));
        }
        let attributes = self.attributes.as_ref();
        if let Some(cluster) = attributes.and_then(|attributes| attributes.cluster.as_ref()) {
            annotations.insert(CLUSTER, Cow::from(cluster.as_str()));
        }
        if let Some([members, missing]) = &self.members {
            annotations.insert(MEMBERS, Cow::from(members));
            if !missing.is_empty() {
                annotations.insert(MISSING, Cow::from(missing));
            }
        }
        let uri = match self.user {
            Some(_) => redact::request_uri(&self.uri, self.shown()),
            None => redact::strangers_uri(&self.uri, self.shown()),
        };
        let method = self.method.as_str().to_ascii_lowercase();
        let event = Event {
            kind: event::KIND,
            api_version: event::API_VERSION,
            level: event::LEVEL,
            audit_id: audit_id.to_string(),
            stage,
            request_uri: &uri,
            verb: attributes.map_or(&method, |attributes| &attributes.verb),
            user: self.user.as_ref().map(|user| User::new(user)).unwrap_or_default(),
            impersonated_user: self.impersonated.as_ref().map(|user| User::new(user)),
            source_ips: &self.source_ips,
            user_agent: &self.user_agent,
            object_ref: attributes.and_then(|attributes| attributes.object.as_ref()).map(Into::into),
            response_status: self.code.map(|code| {
                let refusal = self.refusal.as_ref();
                ResponseStatus {
                    metadata: Empty {},
                    status: refusal.map(|_| "Failure"),
                    message: refusal.map_or("", |refusal| &refusal.message),
                    reason: refusal.map_or("", |refusal| refusal.reason),
                    code: code.as_u16(),
                }
            }),
            request_received_timestamp: self.received,
            stage_timestamp: if stage == Stage::RequestReceived { self.received } else { Timestamp::now() },
            annotations,
        };
        event.render(self.auditor.backends.iter().any(Backend::is_legacy))
    }
}

/// Names of members, as many as an event may have.
fn names<'a>(members: impl Iterator<Item = &'a ClusterName>) -> String {
    let (mut text, mut more) = (String::new(), 0);
    for member in members {
        match text.len() {
            0 => text.push_str(member.as_str()),
            length if length < MAX_NAMES => text.extend([",", member.as_str()]),
            _ => more += 1,
        }
    }
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// The addresses in `X-Forwarded-For`. The host appends the caller's address; earlier ones are the caller's
/// own claim.
fn forwarded_for(headers: &HeaderMap) -> Vec<String> {
    let lists = headers.get_all("x-forwarded-for").iter().filter_map(|list| list.to_str().ok());
    let ips = lists.flat_map(|list| list.split(',')).map(str::trim);
    let mut ips: Vec<_> = ips.filter(|ip| ip.parse::<IpAddr>().is_ok()).map(str::to_owned).collect();
    ips.drain(..ips.len().saturating_sub(MAX_SOURCES));
    ips
}

const DECISION: &str = "authorization.k8s.io/decision";
const REASON: &str = "authorization.k8s.io/reason";
const CLUSTER: &str = "kubectl-mc.dev/cluster";
/// The members of a request to the fleet view.
const MEMBERS: &str = "kubectl-mc.dev/clusters";
/// Those of them that are missing in the answer.
const MISSING: &str = "kubectl-mc.dev/missing-clusters";
const HOP: &str = "kubectl-mc.dev/hop";
const REPLICA: &str = "kubectl-mc.dev/replica";
const DURATION: &str = "kubectl-mc.dev/duration-seconds";
pub const BYTES_TO_MEMBER: &str = "kubectl-mc.dev/bytes-to-member";
pub const BYTES_TO_CALLER: &str = "kubectl-mc.dev/bytes-to-caller";
/// For the tunnel of an agent, which is the caller.
pub const BYTES_FROM_CALLER: &str = "kubectl-mc.dev/bytes-from-caller";
const END: &str = "kubectl-mc.dev/end";
/// A thousand members with short names.
const MAX_NAMES: usize = 8 * 1024;
/// More hops than any request has.
const MAX_SOURCES: usize = 16;

#[cfg(test)]
mod tests;
