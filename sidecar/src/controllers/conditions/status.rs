//! Computes the status of one member from the findings about it. No IO happens here.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kubectl_mc_api::names::MEMBER_UID;
use kubectl_mc_api::{MemberCluster, MemberClusterStatus, SEEN_INTERVAL};

use crate::controllers::kube_error::{MAX_MESSAGE, printable};
use crate::members::inventory::fleet::Registered;

/// The subject of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Aspect {
    /// Whether the member's agent has a tunnel. Only members with an agent have this condition.
    Connected,
    Reachable,
    CredentialValid,
    AuthSynced,
    /// Whether only one inventory registers the name. Present only if another inventory does too.
    UniqueName,
    /// Whether the member's name alone determines the Secrets of its connection. Present only if it does not.
    SecretsBound,
}

/// The state of an aspect, and why. The message must be stable, because each change is a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    holds: Option<bool>,
    reason: &'static str,
    message: String,
    warning: bool,
}

/// The findings about a member.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Known {
    findings: BTreeMap<Aspect, Finding>,
    version: Option<String>,
    seen: Option<Timestamp>,
    /// Whether the status has named this sidecar's namespace before.
    taken: bool,
    yields: bool,
    /// The member's addition to [`SEEN_INTERVAL`], which spreads the writes of `lastSeen`.
    later: Duration,
}

impl Aspect {
    /// All aspects in display order.
    pub(in super::super) const ALL: [Self; 6] = [
        Self::Connected,
        Self::Reachable,
        Self::CredentialValid,
        Self::AuthSynced,
        Self::UniqueName,
        Self::SecretsBound,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "Connected",
            Self::Reachable => "Reachable",
            Self::CredentialValid => "CredentialValid",
            Self::AuthSynced => "AuthSynced",
            Self::UniqueName => "UniqueName",
            Self::SecretsBound => "SecretsBound",
        }
    }

    /// Whether a member has this condition.
    fn is_of(self, registered: &Registered) -> bool {
        match self {
            Self::Connected => registered.is_via_agent(),
            Self::UniqueName => registered.in_two,
            Self::SecretsBound => registered.unbound().is_some(),
            Self::Reachable | Self::CredentialValid | Self::AuthSynced => true,
        }
    }
}

impl Finding {
    pub fn yes(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Some(true), reason, message.into())
    }

    pub fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self { warning: true, ..Self::new(Some(false), reason, message.into()) }
    }

    pub fn unknown(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(None, reason, message.into())
    }

    /// Makes the Event of the finding a warning, even if the aspect holds.
    pub fn warning(self) -> Self {
        Self { warning: true, ..self }
    }

    pub fn is_warning(&self) -> bool {
        self.warning
    }

    pub fn reason(&self) -> &'static str {
        self.reason
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    fn new(holds: Option<bool>, reason: &'static str, message: String) -> Self {
        let message = printable(&message, MAX_MESSAGE);
        Self { holds, reason, message, warning: false }
    }

    fn status(&self) -> &'static str {
        in_words(self.holds)
    }
}

pub(in super::super) fn in_words(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    }
}

impl Known {
    /// `part`, from 0 to 1, spreads later writes of members that were first written at the same time.
    pub(super) fn new(part: f64) -> Self {
        Self { later: SEEN_SPREAD.mul_f64(part), ..Self::default() }
    }

    pub(super) fn found(&mut self, aspect: Aspect, finding: Finding) {
        self.findings.insert(aspect, finding);
    }

    pub(super) fn seen(&mut self, at: Timestamp, version: Option<String>) {
        self.seen = Some(at);
        self.version = version.or_else(|| self.version.take());
    }

    pub(in super::super) fn finding(&self, aspect: Aspect) -> Option<&Finding> {
        self.findings.get(&aspect)
    }

    /// Whether no more findings are expected: all awaited ones are reported, or the member is unreachable.
    pub(super) fn is_whole(&self, awaited: &[Aspect]) -> bool {
        self.findings.get(&Aspect::Reachable).is_some_and(|finding| finding.holds == Some(false))
            || awaited.iter().all(|aspect| self.findings.contains_key(aspect))
    }

    /// Decides which of several sidecars on one host writes the status: the one that has the member's Secret. If two
    /// have such a Secret, the one that started last writes the status, so that they do not keep overwriting each
    /// other.
    pub(super) fn settle(&mut self, namespace: &str, registered: &Registered) {
        let claimed = registered.member.status.as_ref().and_then(|status| status.namespace.as_deref());
        let anothers = claimed.is_some_and(|claimed| claimed != namespace);
        self.yields = anothers && (self.taken || !registered.is_claimed());
        self.taken |= claimed == Some(namespace);
    }

    /// The desired status of `member`, if it differs from the current one.
    pub(super) fn status(
        &self,
        namespace: &str,
        registered: &Registered,
        member: &MemberCluster,
        now: Timestamp,
    ) -> Option<MemberClusterStatus> {
        if self.yields {
            return None;
        }
        let before = member.status.clone().unwrap_or_default();
        let connection = registered.connection.as_deref();
        let mut status = MemberClusterStatus {
            namespace: registered.is_claimed().then(|| namespace.to_owned()),
            server: connection.and_then(server),
            version: self.version.clone().or_else(|| before.version.clone()),
            uid: connection.and_then(uid).or_else(|| before.uid.clone()),
            last_seen: before.last_seen.clone(),
            conditions: before.conditions.clone(),
        };
        let generation = member.metadata.generation;
        let foreign: Vec<_> = Aspect::ALL.into_iter().filter(|aspect| !aspect.is_of(registered)).collect();
        status.conditions.retain(|condition| foreign.iter().all(|aspect| condition.type_ != aspect.as_str()));
        for (aspect, finding) in self.findings.iter().filter(|(aspect, _)| !foreign.contains(aspect)) {
            let (condition, message) = (aspect.as_str(), finding.message.clone());
            set(
                &mut status.conditions,
                condition,
                finding.status(),
                finding.reason,
                message,
                generation,
                now,
            );
        }
        let (holds, reason, message) = ready(&status.conditions);
        set(&mut status.conditions, READY, in_words(holds), &reason, message, generation, now);
        if status != before || self.was_long_ago(&before) {
            status.last_seen = self.seen.map(whole_seconds).map(Time).or(status.last_seen);
        }
        (status != before).then_some(status)
    }

    /// Whether `lastSeen` in the status is outdated.
    fn was_long_ago(&self, status: &MemberClusterStatus) -> bool {
        let Some(seen) = self.seen else { return false };
        status
            .last_seen
            .as_ref()
            .is_none_or(|Time(last)| seen.duration_since(*last).unsigned_abs() >= SEEN_INTERVAL + self.later)
    }
}

/// Whether the member is reachable and accepts the credential. A member whose rights are not in sync stays
/// ready, because users with existing rights can use it.
fn ready(conditions: &[Condition]) -> (Option<bool>, String, String) {
    let of = |aspect: Aspect| conditions.iter().find(|condition| condition.type_ == aspect.as_str());
    let needed = [Aspect::Reachable, Aspect::CredentialValid];
    let like = |holds, condition: &Condition| (holds, condition.reason.clone(), condition.message.clone());
    if let Some(no) =
        needed.iter().filter_map(|&aspect| of(aspect)).find(|condition| condition.status == "False")
    {
        return like(Some(false), no);
    }
    for aspect in needed {
        match of(aspect) {
            None => return (None, "NotProbed".to_owned(), String::new()),
            Some(condition) if condition.status != "True" => return like(None, condition),
            Some(_) => {}
        }
    }
    if let Some(in_two) = of(Aspect::UniqueName) {
        return like(Some(true), in_two);
    }
    match of(Aspect::AuthSynced) {
        Some(behind) if behind.status == "False" => {
            (Some(true), "AuthNotSynced".to_owned(), behind.message.clone())
        }
        _ => (Some(true), "Ready".to_owned(), String::new()),
    }
}

/// Sets a condition. Its transition time changes only with its status.
pub(in super::super) fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: &str,
    reason: &str,
    message: String,
    observed_generation: Option<i64>,
    now: Timestamp,
) {
    let since = |last_transition_time| Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation,
        last_transition_time,
    };
    match conditions.iter_mut().find(|condition| condition.type_ == type_) {
        Some(condition) if condition.status == status => {
            *condition = since(condition.last_transition_time.clone());
        }
        Some(condition) => *condition = since(Time(whole_seconds(now))),
        None => conditions.push(since(Time(whole_seconds(now)))),
    }
}

/// Truncates to seconds, the precision of Kubernetes' timestamps, so that a written status equals the one
/// read back.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn server(secret: &Secret) -> Option<String> {
    let server = secret.data.as_ref()?.get("server")?;
    std::str::from_utf8(&server.0).ok().map(|server| server.trim().to_owned())
}

/// The uid that the member's agent has reported.
fn uid(secret: &Secret) -> Option<String> {
    secret.metadata.annotations.as_ref()?.get(MEMBER_UID).cloned()
}

pub(in super::super) const READY: &str = "Ready";
/// The maximum addition to [`SEEN_INTERVAL`] in a fleet.
const SEEN_SPREAD: Duration = Duration::from_secs(60);
