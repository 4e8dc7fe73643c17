//! Stores the findings about the direct endpoint of a host in a file of the cache folder. Times are seconds
//! since 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::endpoint::{Endpoint, Fault};
use crate::argv::Scanned;
use crate::cache::Cache;
use crate::cluster::context::{ClusterContext, User};
use crate::error::Failure;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Findings {
    /// The time when the publication was read.
    read: u64,
    endpoint: Option<Endpoint>,
    /// The time when the endpoint was last reached.
    reached: u64,
    /// Whether it accepted the caller's credential.
    accepts: bool,
    /// The last fault, and its expiry time.
    fault: Option<(String, u64)>,
}

impl Findings {
    /// The file name for a user of a host in a kubeconfig.
    pub(super) fn key(host: &ClusterContext, scanned: &Scanned) -> String {
        let user = match &host.user {
            User::Named(name) => name.as_deref().unwrap_or_default(),
            User::Inline(name, ..) => name,
            User::ServiceAccount(_) => "",
        };
        let flag = scanned.value("user").map(|user| user.to_string_lossy()).unwrap_or_default();
        let context = host.context.as_deref().unwrap_or_default();
        format!("{}\n{context}\n{user}\n{flag}\n{:?}", host.server, host.files)
    }

    pub(super) fn load(cache: &Cache, key: &str, now: SystemTime) -> Option<Self> {
        serde_json::from_slice(&cache.load_named(KIND, key, now)?).ok()
    }

    pub(super) fn store(&self, cache: &Cache, key: &str, now: SystemTime) -> Result<(), Failure> {
        cache.store_named(KIND, key, &serde_json::to_vec(self).unwrap_or_default(), now).map(drop)
    }

    /// The result that needs no request: the endpoint, or why it is not used. A cached fault is ignored if
    /// the endpoint is required.
    pub(super) fn usable(&self, now: SystemTime, demanded: bool) -> Option<Result<Endpoint, Fault>> {
        if let Some((reason, until)) = &self.fault
            && !demanded
            && seconds(now) < *until
        {
            return Some(Err(Fault::Remembered(reason.as_str().into())));
        }
        let is_known = !self.publication_is_due(now) && self.was_reached(now) && self.accepts;
        self.endpoint.clone().filter(|_| is_known).map(Ok)
    }

    pub(super) fn publication_is_due(&self, now: SystemTime) -> bool {
        self.endpoint.is_none() || !is_within(self.read, now, PUBLICATION)
    }

    /// Whether the publication was read earlier.
    pub(super) fn may_be_outdated(&self, now: SystemTime) -> bool {
        !is_within(self.read, now, Duration::from_secs(1))
    }

    pub(super) fn was_reached(&self, now: SystemTime) -> bool {
        is_within(self.reached, now, REACHED)
    }

    pub(super) fn accepts_credential(&self) -> bool {
        self.accepts
    }

    pub(super) fn endpoint(&self) -> Result<Endpoint, Fault> {
        self.endpoint.clone().ok_or(Fault::NotPublished)
    }

    /// Stores the publication. Another endpoint may accept other credentials.
    pub(super) fn read(&mut self, published: &Result<Endpoint, Fault>, now: SystemTime) {
        self.keep(published, now);
        match published {
            Ok(endpoint) => {
                self.endpoint = Some(endpoint.clone());
                self.read = seconds(now);
                self.accepts = false;
            }
            Err(_) => self.endpoint = None,
        }
    }

    pub(super) fn reached(&mut self, outcome: &Result<(), Fault>, now: SystemTime) {
        self.keep(outcome, now);
        self.reached = if outcome.is_ok() { seconds(now) } else { 0 };
    }

    pub(super) fn accepted(&mut self, outcome: &Result<(), Fault>, now: SystemTime) {
        self.keep(outcome, now);
        self.accepts = outcome.is_ok();
    }

    fn keep<T>(&mut self, outcome: &Result<T, Fault>, now: SystemTime) {
        let fault = outcome.as_ref().err();
        self.fault = fault.map(|fault| (fault.to_string(), seconds(now + life(fault))));
    }
}

/// How long to cache a fault.
fn life(fault: &Fault) -> Duration {
    match fault {
        Fault::NotPublished | Fault::NotAccepted { .. } => UNUSABLE,
        Fault::NotRead(_) | Fault::NotReached { .. } => OUTAGE,
        Fault::NotSuitable(_) | Fault::Client(_) | Fault::Remembered(_) => Duration::ZERO,
    }
}

/// A time in the future comes from a clock that was set back.
fn is_within(time: u64, now: SystemTime, life: Duration) -> bool {
    seconds(now).checked_sub(time).is_some_and(|age| age < life.as_secs())
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

const KIND: &str = "route";
/// How long to cache a publication; one that no longer works is read again immediately.
const PUBLICATION: Duration = Duration::from_secs(6 * 60 * 60);
/// How long to use a reached endpoint without another probe.
const REACHED: Duration = Duration::from_secs(60);
/// How long commands go through the host after the endpoint was unreachable.
const OUTAGE: Duration = Duration::from_secs(5 * 60);
/// How long commands go through the host if the endpoint is not published, or not for this caller.
const UNUSABLE: Duration = Duration::from_secs(60 * 60);
