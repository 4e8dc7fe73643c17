//! What was allowed last on one connection. Most connections are one caller's who does the same again, and an
//! identity that is known from before is the same object each time: until the host's decision is too old nobody
//! need look for it.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use kubectl_mc_api::ClusterName;
use tokio::time::Instant;

use super::Allowed;
use crate::identity::Identity;
use crate::request_info::{RequestInfo, Route, Verb};

/// What one connection remembers.
#[derive(Debug, Default)]
pub struct LastAllowed(ArcSwapOption<Before>);

#[derive(Debug)]
struct Before {
    verb: Verb,
    cluster: ClusterName,
    /// Holds the identity, so that no other can be in its place.
    allowed: Allowed,
    until: Instant,
}

impl LastAllowed {
    /// What the host allowed, if it was asked the same and not too long ago.
    pub(super) fn again(&self, identity: &Arc<Identity>, info: &RequestInfo) -> Option<Allowed> {
        let Route::Proxy(cluster, _) = &info.route else { return None };
        let before = self.0.load();
        let before = before.as_ref()?;
        let same = Arc::ptr_eq(&before.allowed.identity, identity)
            && before.verb == info.verb
            && before.cluster == *cluster;
        (same && Instant::now() < before.until).then(|| before.allowed.again())
    }

    /// Keeps what the host allowed `until` its decision is too old.
    pub(super) fn remember(&self, info: &RequestInfo, allowed: &Allowed, until: Instant) {
        if let Route::Proxy(cluster, _) = &info.route
            && Instant::now() < until
        {
            let (verb, cluster, allowed) = (info.verb, cluster.clone(), allowed.again());
            self.0.store(Some(Arc::new(Before { verb, cluster, allowed, until })));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use http::Request;
    use kubectl_mc_api::path;
    use serde_json::json;
    use tokio::time::advance;

    use super::*;
    use crate::authorization::{Attributes, Authorizer, Error, Right, Subject};
    use crate::fake_host::host;
    use crate::limits::Caller;
    use crate::upgrade::Protocol;

    const JANE: Caller = Caller::of_hash(1);

    fn asks(method: &str, cluster: &str, rest: &str) -> RequestInfo {
        let request = Request::builder().method(method).header("host", "h");
        let request = request.uri(format!("{}/{cluster}/proxy/{rest}", path::CLUSTERS_PATH));
        RequestInfo::parse(&request.body(()).unwrap()).unwrap()
    }

    fn somebody(user: &str) -> Arc<Identity> {
        Arc::new(Identity { user: user.to_owned(), ..Identity::default() })
    }

    fn allowed(identity: &Arc<Identity>) -> Allowed {
        Allowed { identity: identity.clone(), rights: Arc::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_one_callers_one_members_and_one_verbs_and_ends() {
        let (jane, last) = (somebody("jane"), LastAllowed::default());
        let get = asks("GET", "m1", "version");
        assert!(last.again(&jane, &get).is_none(), "nothing was allowed yet");

        last.remember(&get, &allowed(&jane), Instant::now() + Duration::from_secs(10));
        assert!(Arc::ptr_eq(last.again(&jane, &get).unwrap().identity(), &jane));
        assert!(last.again(&jane, &asks("GET", "m1", "api/v1/pods")).is_some(), "the path is the member's");
        assert!(last.again(&jane, &asks("POST", "m1", "version")).is_none(), "another verb");
        assert!(last.again(&jane, &asks("GET", "m2", "version")).is_none(), "another member");
        assert!(last.again(&somebody("jane"), &get).is_none(), "another login");

        advance(Duration::from_secs(10)).await;
        assert!(last.again(&jane, &get).is_none(), "the decision is too old");
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_not_be_kept_is_not() {
        let (jane, last) = (somebody("jane"), LastAllowed::default());
        last.remember(&asks("GET", "m1", "version"), &allowed(&jane), Instant::now());
        assert!(last.0.load().is_none());
    }

    /// A host that lets everybody get, and nobody create.
    fn readable() -> (Authorizer, Arc<AtomicUsize>) {
        let (client, asked) = host(|review| {
            let allowed = review["spec"]["resourceAttributes"]["verb"] == "get";
            let status = json!({"allowed": allowed});
            (201, json!({"kind": "SubjectAccessReview", "metadata": {}, "spec": {}, "status": status}))
        });
        (Authorizer::new(client), asked)
    }

    #[tokio::test]
    async fn what_needs_more_rights_is_not_taken_from_it() {
        let (authorizer, _) = readable();
        let (jane, last) = (somebody("jane"), LastAllowed::default());
        let get = asks("GET", "m1", "version");
        authorizer.authorize(jane.clone().into(), JANE, &get, Some(&last)).await.unwrap();
        assert!(last.again(&jane, &get).is_some());

        let right = Attributes::impersonate("", "users", "", "", "jane");
        let right = Right { holder: somebody("bob"), attributes: right };
        let impersonated = Subject::impersonated(jane.clone(), vec![right]);
        let allowed = authorizer.authorize(impersonated, JANE, &get, Some(&last)).await.unwrap();
        assert_eq!(allowed.rights.len(), 2, "it rests on bob's right to be jane, too");

        let upgrade = RequestInfo { upgrade: Some(Protocol::WebSocket), ..get };
        let refused = authorizer.authorize(jane.into(), JANE, &upgrade, Some(&last)).await;
        assert!(matches!(refused, Err(Error::Denied(_))), "a way in needs create: {refused:?}");
    }

    #[tokio::test]
    async fn who_is_too_large_to_be_kept_is_asked_about_each_time() {
        let (authorizer, asked) = readable();
        let large = Arc::new(Identity { groups: vec!["g".repeat(10_000)], ..Identity::default() });
        let (get, last) = (asks("GET", "m1", "version"), LastAllowed::default());
        for _ in 0..2 {
            authorizer.authorize(large.clone().into(), JANE, &get, Some(&last)).await.unwrap();
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
}
