//! SubjectAccessReview on the host, with upstream's cache (allow and deny for 10 s by default, LRU of 8192,
//! nothing kept whose attributes are 10,000 bytes or more), equal look-ups joined, and a bound on
//! those under way. A failed review allows nothing.
//!
//! Lists ask about every cluster. They have a cache and a bound of their own, so that they neither push out what other
//! requests use, nor make these requests wait for the host.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::Api;
use kubectl_mc_api::Origin;
use tokio::time::timeout;

use super::{Asker, Attributes};
use crate::identity::Identity;
use crate::identity::review_metrics::ReviewMetrics;
use crate::request::limits::{Bound, Caller, Shares, Size};
use crate::retry;
use crate::ttl_cache::TtlCache;

/// The host's decisions.
pub struct SubjectAccessReviews {
    reviews: Api<SubjectAccessReview>,
    decisions: Decisions,
    /// Those of lists.
    listed: Decisions,
    ttl: Ttl,
    /// Under way for callers, each of whom has a share, and so has each priority level.
    callers: Bound,
    /// Under way for the lists and watches of callers, in turns.
    listings: Bound,
    /// Under way for requests that were allowed before: callers cannot hold these up.
    renewals: Bound,
    metrics: ReviewMetrics,
}

type Decisions = TtlCache<(Arc<Identity>, Attributes), Result<Decision, Arc<Error>>>;

/// What the host decided, and why if it says so.
#[derive(Clone, Debug)]
pub struct Decision {
    pub allowed: bool,
    pub reason: Arc<str>,
}

/// How long decisions are kept; zero keeps none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    pub allowed: Duration,
    pub denied: Duration,
}

impl Default for Ttl {
    /// Upstream's of an aggregated server.
    fn default() -> Self {
        Self { allowed: TTL, denied: TTL }
    }
}

impl SubjectAccessReviews {
    pub fn new(host: kube::Client, ttl: Ttl, levels: Option<Shares>) -> Self {
        let of_callers = Size { levels, ..Size::new(MAX_OF_CALLERS, MAX_QUEUED) };
        Self {
            reviews: Api::all(host),
            decisions: TtlCache::new(MAX_DECISIONS, TTL),
            listed: TtlCache::new(MAX_LISTED, TTL),
            ttl,
            callers: Bound::new(of_callers),
            listings: Bound::new(Size::new(MAX_OF_LISTINGS, MAX_QUEUED_LISTINGS)),
            renewals: Bound::new(Size::new(MAX_OF_RENEWALS, usize::MAX).with_share(MAX_OF_RENEWALS)),
            metrics: ReviewMetrics::default(),
        }
    }

    /// Counts them there.
    pub fn counted(self, metrics: ReviewMetrics) -> Self {
        Self { metrics, ..self }
    }

    /// The host's decision, fresh or kept.
    pub async fn decide(
        &self,
        identity: &Arc<Identity>,
        attributes: &Attributes,
        asker: Asker,
    ) -> Result<Decision, Arc<Error>> {
        if identity.size() + attributes.size() >= MAX_KEPT_SIZE {
            return Box::pin(self.review(identity, attributes, asker)).await.map_err(Arc::new);
        }
        let decisions = match asker {
            Asker::Listing(_) => &self.listed,
            Asker::Caller(_) | Asker::Renewal => &self.decisions,
        };
        let key = (identity.clone(), attributes.clone());
        if let Some(decision) = decisions.get(&key) {
            return decision;
        }
        let review = async { self.review(identity, attributes, asker).await.map_err(Arc::new) };
        let ttl = |decision: &Result<Decision, _>| match decision {
            Ok(Decision { allowed: true, .. }) => self.ttl.allowed,
            Ok(Decision { allowed: false, .. }) => self.ttl.denied,
            Err(_) => Duration::ZERO,
        };
        Box::pin(decisions.get_or_fetch_for(&key, review, ttl)).await
    }

    /// How many decisions are kept, of requests and of lists.
    pub fn kept(&self) -> [usize; 2] {
        [self.decisions.len(), self.listed.len()]
    }

    /// Drops decisions whose time is over.
    pub fn forget_expired(&self) {
        self.decisions.forget_expired();
        self.listed.forget_expired();
    }

    async fn review(
        &self,
        identity: &Identity,
        attributes: &Attributes,
        asker: Asker,
    ) -> Result<Decision, Error> {
        let review =
            SubjectAccessReview { spec: spec(identity, attributes), ..SubjectAccessReview::default() };
        let waiting = self.metrics.waiting();
        let permit = match asker {
            Asker::Caller(caller) => self.callers.admit_within(caller, LONGEST_WAIT).await,
            Asker::Listing(caller) => self.listings.admit_within(caller, REVIEW_TIMEOUT).await,
            Asker::Renewal => self.renewals.admit_within(RENEWALS, REVIEW_TIMEOUT).await,
        };
        drop(waiting);
        let _permit = permit.ok_or(Error::TooMany)?;
        let _running = self.metrics.running();
        let begun = Instant::now();
        let answer = timeout(REVIEW_TIMEOUT, retry::review(&self.reviews, &review)).await;
        self.metrics.answered(answer.as_ref().ok(), begun.elapsed());
        let answer = answer.map_err(|_| Error::Timeout)?.map_err(Error::Host)?;
        let status = answer.status.unwrap_or_default();
        Ok(Decision {
            allowed: status.allowed && status.denied != Some(true),
            reason: status.reason.unwrap_or_default().into(),
        })
    }
}

impl Attributes {
    /// The same in a review's words, if it is about a resource.
    pub(crate) fn of_resource(&self) -> Option<ResourceAttributes> {
        let Self::Resource { verb, group, resource, subresource, namespace, name } = self else {
            return None;
        };
        let text = |value: &str| (!value.is_empty()).then(|| value.to_owned());
        Some(ResourceAttributes {
            verb: text(verb),
            group: text(group),
            version: version(group).map(str::to_owned),
            resource: text(resource),
            subresource: text(subresource),
            namespace: text(namespace),
            name: text(name),
            ..ResourceAttributes::default()
        })
    }

    fn size(&self) -> usize {
        match self {
            Self::Resource { group, resource, subresource, namespace, name, .. } => {
                group.len() + resource.len() + subresource.len() + namespace.len() + name.len()
            }
            Self::NonResource { path, .. } => path.len(),
        }
    }
}

fn spec(identity: &Identity, attributes: &Attributes) -> SubjectAccessReviewSpec {
    let text = |value: &str| (!value.is_empty()).then(|| value.to_owned());
    let mut spec = SubjectAccessReviewSpec {
        user: Some(identity.user.clone()),
        uid: identity.uid.clone(),
        groups: (!identity.groups.is_empty()).then(|| identity.groups.clone()),
        extra: (!identity.extra.is_empty()).then(|| identity.extra.clone()),
        ..SubjectAccessReviewSpec::default()
    };
    match attributes {
        Attributes::Resource { .. } => spec.resource_attributes = attributes.of_resource(),
        Attributes::NonResource { verb, path } => {
            spec.non_resource_attributes = Some(NonResourceAttributes { verb: text(verb), path: text(path) });
        }
    }
    spec
}

/// The version that an apiserver's own request for a group's resource names, if any
/// (apiserver: `filters/impersonation`, which gives none for users, groups and service accounts).
fn version(group: &str) -> Option<&'static str> {
    match Origin::of_group(group) {
        Some(origin) => Some(origin.grant_version()),
        None => (group == "authentication.k8s.io").then_some("v1"),
    }
}

/// Why there is no decision.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it did not answer in time")]
    Timeout,
    #[error("too many reviews are under way")]
    TooMany,
    #[error(transparent)]
    Host(kube::Error),
}

/// Upstream's lifetime of an aggregated server's decisions, allow and deny alike.
pub const TTL: Duration = Duration::from_secs(10);
const MAX_DECISIONS: usize = 8192;
/// Upstream keeps nothing from this size on.
const MAX_KEPT_SIZE: usize = 10_000;
/// Upstream's limit for one review.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_OF_CALLERS: usize = 160;
/// Of one caller.
const MAX_QUEUED: usize = 100;
/// For a place. Who waits longer may as well come again.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// A fifth of the others: the host answers these in between.
const MAX_OF_LISTINGS: usize = 32;
/// Hundreds of lists at a time, of a few reviews each.
const MAX_QUEUED_LISTINGS: usize = 8192;
/// Of 16 callers with 1,000 clusters.
const MAX_LISTED: usize = 16_384;
const MAX_OF_RENEWALS: usize = 40;
/// All renewals are one holder.
const RENEWALS: Caller = Caller::of_hash(0);

#[cfg(test)]
mod tests;
