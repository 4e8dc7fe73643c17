//! Authenticates bearer tokens by TokenReviews on the host (apiserver:
//! `plugin/pkg/authenticator/token/webhook` behind `authentication/token/cache`). Verdicts are cached for 10
//! seconds by default, and concurrent lookups of a token are coalesced. The number of concurrent reviews is
//! limited, so invalid tokens cost the host little.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::{hmac, rand};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::api::Api;
use tokio::time::timeout;
use tracing::warn;

use super::error::Error;
use crate::base::retry;
use crate::base::ttl_cache::TtlCache;
use crate::identity::Identity;
use crate::identity::review_metrics::ReviewMetrics;
use crate::limits::in_flight::{Bound, Caller, Size};

mod cache_metrics;

pub use cache_metrics::CacheMetrics;

/// The host's verdicts on tokens.
pub struct TokenReviews {
    reviews: Api<TokenReview>,
    audiences: Vec<String>,
    /// The key of the digests by which tokens are cached. The tokens themselves are not stored.
    key: hmac::Key,
    verdicts: TtlCache<[u8; 32], Result<Option<Arc<Identity>>, Error>>,
    /// Tokens that the host accepted recently.
    accepted: TtlCache<[u8; 32], ()>,
    /// Limits concurrent reviews of other tokens; each address has a share.
    strangers: Bound,
    /// Limits concurrent reviews of accepted tokens. Unknown tokens cannot delay these.
    renewals: Bound,
    metrics: ReviewMetrics,
    cache: CacheMetrics,
}

impl TokenReviews {
    /// `audiences` are the accepted audiences of tokens; if empty, the host chooses.
    pub fn new(host: kube::Client, audiences: Vec<String>) -> Result<Self, aws_lc_rs::error::Unspecified> {
        Ok(Self {
            reviews: Api::all(host),
            audiences,
            key: hmac::Key::generate(hmac::HMAC_SHA256, &rand::SystemRandom::new())?,
            verdicts: TtlCache::new(MAX_VERDICTS, TTL),
            accepted: TtlCache::new(MAX_VERDICTS, ACCEPTED),
            strangers: Bound::new(Size::new(MAX_OF_STRANGERS, MAX_QUEUED)),
            renewals: Bound::new(Size::new(MAX_OF_RENEWALS, MAX_QUEUED)),
            metrics: ReviewMetrics::default(),
            cache: CacheMetrics::default(),
        })
    }

    /// Sets the TTL of cached verdicts; zero disables the cache.
    pub fn with_ttl(self, ttl: Duration) -> Self {
        Self { verdicts: TtlCache::new(MAX_VERDICTS, ttl), ..self }
    }

    /// Records reviews in these metrics.
    pub fn counted(self, metrics: ReviewMetrics, cache: CacheMetrics) -> Self {
        Self { metrics, cache, ..self }
    }

    /// The user of a token that was sent from an address.
    pub async fn authenticate(&self, token: &str, address: Caller) -> Result<Arc<Identity>, Error> {
        self.verdict(token, address).await?.ok_or(Error::Token)
    }

    /// The number of cached verdicts.
    pub fn kept(&self) -> usize {
        self.verdicts.len()
    }

    /// Drops expired verdicts.
    pub fn forget_expired(&self) {
        self.verdicts.forget_expired();
        self.accepted.forget_expired();
    }

    async fn verdict(&self, token: &str, address: Caller) -> Result<Option<Arc<Identity>>, Error> {
        let digest = self.digest(token);
        let kept = self.verdicts.get(&digest);
        self.cache.asked(kept.is_some());
        if let Some(verdict) = kept {
            return verdict;
        }
        let _blocked = self.cache.blocked();
        let review = async {
            let _in_flight = self.cache.in_flight();
            let user = self.review(token, &digest, address).await;
            self.cache.fetched(user.is_ok());
            let user = user?;
            if user.is_some() {
                self.accepted.get_or_fetch(&digest, ready(()), |()| true).await;
            }
            Ok(user)
        };
        Box::pin(self.verdicts.get_or_fetch(&digest, review, Result::is_ok)).await
    }

    async fn review(
        &self,
        token: &str,
        digest: &[u8; 32],
        address: Caller,
    ) -> Result<Option<Arc<Identity>>, Error> {
        let waiting = self.metrics.waiting();
        let permit = match self.accepted.get(digest) {
            Some(()) => self.renewals.admit_within(holder(digest), LONGEST_WAIT).await,
            None => self.strangers.admit_within(address, LONGEST_WAIT).await,
        };
        drop(waiting);
        let _permit = permit.ok_or(Error::TooManyReviews)?;
        let _running = self.metrics.running();
        let begun = Instant::now();
        let spec = TokenReviewSpec {
            token: Some(token.to_owned()),
            audiences: (!self.audiences.is_empty()).then(|| self.audiences.clone()),
        };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = timeout(REVIEW_TIMEOUT, retry::review(&self.reviews, &review)).await;
        self.metrics.answered(answer.as_ref().ok(), begun.elapsed());
        let review = match answer {
            Ok(Ok(review)) => review,
            Ok(Err(error)) => {
                warn!(%error, "token review failed");
                return Err(Error::Review);
            }
            Err(_) => {
                warn!(error = "the host did not answer in time", "token review failed");
                return Err(Error::Review);
            }
        };
        let status = review.status.unwrap_or_default();
        let meant_for_us = self.audiences.is_empty()
            || status.audiences.unwrap_or_default().iter().any(|a| self.audiences.contains(a));
        let accepted = status.authenticated == Some(true) && meant_for_us;
        Ok(status.user.filter(|_| accepted).and_then(identity).map(Arc::new))
    }

    fn digest(&self, token: &str) -> [u8; 32] {
        let mut digest = [0; 32];
        digest.copy_from_slice(hmac::sign(&self.key, token.as_bytes()).as_ref());
        digest
    }
}

fn identity(user: UserInfo) -> Option<Identity> {
    let name = user.username.filter(|name| !name.is_empty())?;
    let extra: BTreeMap<String, Vec<String>> = user.extra.unwrap_or_default();
    let identity = Identity {
        user: name,
        uid: user.uid.filter(|uid| !uid.is_empty()),
        groups: user.groups.unwrap_or_default(),
        extra: extra.into_iter().map(|(key, values)| (key.to_lowercase(), values)).collect(),
    };
    Some(identity.authenticated())
}

/// The token's key in the limit of concurrent reviews.
fn holder(digest: &[u8; 32]) -> Caller {
    Caller::of_hash(digest.first_chunk().map_or(0, |start| u64::from_ne_bytes(*start)))
}

/// Upstream's TTL, for accepted and refused tokens alike.
pub const TTL: Duration = Duration::from_secs(10);
const MAX_VERDICTS: usize = 8192;
/// Upstream's timeout of one review.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_OF_STRANGERS: usize = 48;
const MAX_OF_RENEWALS: usize = 16;
/// The queue length for one address, or for one accepted token.
const MAX_QUEUED: usize = 256;
/// The longest wait in the queue. After it, the request fails and the caller can retry.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// How long an accepted token has priority over unknown ones.
const ACCEPTED: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests;
