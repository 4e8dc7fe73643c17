//! Sends SubjectAccessReviews to the host, with upstream's cache: 10 s for allow and deny by default, LRU of
//! 8192, no entry with 10,000 bytes or more of identity and attributes. Concurrent lookups of a key are
//! coalesced, and the number of concurrent reviews is limited. A failed review allows nothing.
//!
//! Lists need a review for every cluster. They have their own cache and limit, so that they neither evict the
//! decisions of other requests nor delay their reviews.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::Api;
use kubectl_mc_api::Origin;
use tokio::time::timeout;

use super::{Asker, Attributes};
use crate::base::retry;
use crate::base::ttl_cache::TtlCache;
use crate::identity::Identity;
use crate::identity::review_metrics::ReviewMetrics;
use crate::limits::in_flight::{Bound, Caller, Shares, Size};

/// The host's decisions.
pub struct SubjectAccessReviews {
    reviews: Api<SubjectAccessReview>,
    decisions: Decisions,
    /// The decisions for lists.
    listed: Decisions,
    ttl: Ttl,
    /// Limits concurrent reviews for callers. Each caller and each priority level has a share.
    callers: Bound,
    /// Limits concurrent reviews for the lists and watches of callers, which take turns.
    listings: Bound,
    /// Limits concurrent reviews for the revalidation of allowed requests. Callers cannot delay these.
    renewals: Bound,
    metrics: ReviewMetrics,
}

type Decisions = TtlCache<(Arc<Identity>, Attributes), Result<Decision, Arc<Error>>>;

/// The host's decision, and its reason, which may be empty.
#[derive(Clone, Debug)]
pub struct Decision {
    pub allowed: bool,
    pub reason: Arc<str>,
}

/// The TTL of cached decisions; zero disables the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    pub allowed: Duration,
    pub denied: Duration,
}

impl Default for Ttl {
    /// Upstream's TTL in an aggregated server.
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

    /// Records reviews in these metrics.
    pub fn counted(self, metrics: ReviewMetrics) -> Self {
        Self { metrics, ..self }
    }

    /// The host's decision, from a review or from the cache.
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

    /// The numbers of cached decisions for requests and for lists.
    pub fn kept(&self) -> [usize; 2] {
        [self.decisions.len(), self.listed.len()]
    }

    /// Drops expired decisions.
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
    /// The resource attributes of a review; `None` for a non-resource path.
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

/// The API version that an apiserver sets in its own review for a group's resource, if any
/// (apiserver: `filters/impersonation`, which sets none for users, groups and service accounts).
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

/// Upstream's TTL of decisions in an aggregated server, for allow and deny alike.
pub const TTL: Duration = Duration::from_secs(10);
const MAX_DECISIONS: usize = 8192;
/// Upstream caches nothing of this size or larger.
const MAX_KEPT_SIZE: usize = 10_000;
/// Upstream's timeout of one review.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_OF_CALLERS: usize = 160;
/// The queue length for one caller.
const MAX_QUEUED: usize = 100;
/// The longest wait in the queue. After it, the request fails and the caller can retry.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// A fifth of [`MAX_OF_CALLERS`], so the host has capacity for other reviews during a list.
const MAX_OF_LISTINGS: usize = 32;
/// Enough for hundreds of concurrent lists with a few reviews each.
const MAX_QUEUED_LISTINGS: usize = 8192;
/// Enough for 16 callers with 1,000 clusters each.
const MAX_LISTED: usize = 16_384;
const MAX_OF_RENEWALS: usize = 40;
/// The single key that all revalidations share in their limit.
const RENEWALS: Caller = Caller::of_hash(0);

#[cfg(test)]
mod tests;
