//! Finds out which rights a member's grant to the sidecar lacks. A member that refuses impersonation names
//! only the first missing right, in a message that reads as if the caller were refused. So the sidecar asks
//! the member which of the needed rights its credential lacks (SelfSubjectAccessReview).
//!
//! These requests carry the sidecar's credential and no caller's identity ([`super::sidecar_client`]). Their
//! path is fixed, and a caller's names appear only as JSON strings.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::authorization::v1::{SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Upstream;
use super::outgoing::{self, Outgoing};
use crate::base::ttl_cache::TtlCache;
use crate::identity::Identity;
use crate::identity::authorization::Attributes;

/// The known gaps of one member's grant. Created at the member's first refusal.
#[derive(Debug)]
pub(super) struct Grant {
    lacking: TtlCache<Arc<Identity>, Option<Arc<Lacking>>>,
    under_way: Semaphore,
}

/// The rights that the sidecar's credential lacks to impersonate an identity.
#[derive(Debug)]
pub struct Lacking {
    pub rights: Vec<Attributes>,
    pub words: Arc<str>,
}

impl Default for Grant {
    fn default() -> Self {
        Self { lacking: TtlCache::new(MAX_KEPT, KEPT), under_way: Semaphore::new(MAX_UNDER_WAY) }
    }
}

impl Upstream {
    /// Which of these rights, needed to impersonate `identity`, the sidecar's credential lacks. `None` if it
    /// lacks none or the member does not answer. Concurrent and soon repeated calls share one answer.
    pub async fn lacking(&self, identity: &Arc<Identity>, rights: &[Attributes]) -> Option<Arc<Lacking>> {
        let grant = self.grant.get_or_init(Grant::default);
        let asked = async { timeout(TIMEOUT, self.ask(grant, rights)).await.ok().flatten() };
        grant.lacking.get_or_fetch(identity, asked, |_| true).await
    }

    /// Whether the sidecar's credential has all of these rights now.
    pub async fn grants(&self, rights: &[Attributes]) -> bool {
        let grant = self.grant.get_or_init(Grant::default);
        let answers = timeout(TIMEOUT, join_all(rights.iter().map(|right| self.may(grant, right)))).await;
        let granted = answers.is_ok_and(|answers| answers.iter().all(|may| *may == Some(true)));
        if granted {
            // The cached gaps are outdated.
            grant.lacking.clear();
        }
        granted
    }

    async fn ask(&self, grant: &Grant, rights: &[Attributes]) -> Option<Arc<Lacking>> {
        let asked = &rights[..rights.len().min(MAX_RIGHTS)];
        let answers = join_all(asked.iter().map(|right| self.may(grant, right))).await;
        let lacking = asked.iter().zip(answers).filter(|(_, may)| *may == Some(false));
        let lacking: Vec<_> = lacking.map(|(right, _)| right.clone()).collect();
        let mut words: Vec<String> = lacking.iter().map(in_words).collect();
        words.dedup();
        if words.is_empty() {
            return None;
        }
        if rights.len() > asked.len() {
            words.push("and perhaps more".to_owned());
        }
        let words = Arc::from(format!("impersonate {}", words.join(", ")));
        Some(Arc::new(Lacking { rights: lacking, words }))
    }

    /// Whether the member grants this right to the sidecar, if it answers.
    async fn may(&self, grant: &Grant, right: &Attributes) -> Option<bool> {
        let _permit = grant.under_way.acquire().await.ok()?;
        let response = self.pool.send(self.review(right)?).await.ok()?;
        if response.status() != StatusCode::CREATED {
            return None;
        }
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.ok()?.to_bytes();
        let review: SelfSubjectAccessReview = serde_json::from_slice(&body).ok()?;
        review.status.map(|status| status.allowed)
    }

    fn review(&self, right: &Attributes) -> Option<Request<Outgoing>> {
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: right.of_resource(),
            non_resource_attributes: None,
        };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let document = serde_json::to_vec(&review).ok()?;
        self.own_request(Method::POST, REVIEWS, None, outgoing::document(document))
    }
}

/// The right in the form of an RBAC rule. It contains the names that rules list; values of uids and
/// extra would not help the reader.
fn in_words(right: &Attributes) -> String {
    match right {
        Attributes::Resource { resource: resource @ ("users" | "groups"), name, .. } => {
            format!("{resource} {name:?}")
        }
        Attributes::Resource { resource: "serviceaccounts", namespace, name, .. } => {
            format!("serviceaccounts {:?}", format!("{namespace}/{name}"))
        }
        Attributes::Resource { resource, subresource, .. } if subresource.is_empty() => {
            (*resource).to_owned()
        }
        Attributes::Resource { resource, subresource, .. } => format!("{resource}/{subresource}"),
        Attributes::NonResource { path, .. } => (*path).to_owned(),
    }
}

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// An identity has about a dozen parts; one with hundreds of groups lacks the same right for all of them.
const MAX_RIGHTS: usize = 32;
/// Concurrent requests to one member, for all callers together.
const MAX_UNDER_WAY: usize = 32;
/// A refused caller waits for this answer.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The same as the TTL of authorization decisions.
const KEPT: Duration = Duration::from_secs(10);
const MAX_KEPT: usize = 128;
const MAX_ANSWER: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_is_worded_as_in_an_rbac_rule() {
        for (right, words) in [
            (Attributes::impersonate("", "users", "", "", "jane"), r#"users "jane""#),
            (Attributes::impersonate("", "groups", "", "", "a b"), r#"groups "a b""#),
            (Attributes::impersonate("", "serviceaccounts", "", "ns", "n"), r#"serviceaccounts "ns/n""#),
            (Attributes::impersonate("authentication.k8s.io", "uids", "", "", "1"), "uids"),
            (
                Attributes::impersonate("authentication.k8s.io", "userextras", "scopes", "", "view"),
                "userextras/scopes",
            ),
        ] {
            assert_eq!(in_words(&right), words);
        }
    }
}
