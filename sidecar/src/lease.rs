//! The leave of a long-running request to go on. It was allowed when it began; whether it still is,
//! the host is asked every 30 seconds. The lease is over on a deny, when the member is deleted, and
//! when its connection leads elsewhere.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, debug, info};

use crate::authorization::{self, Allowed, Authorizer};

/// Held by a long-running request for as long as it runs.
#[derive(Debug)]
pub struct Lease {
    over: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

impl Lease {
    /// Grants what was just allowed. `gone` ends it at once.
    pub fn grant(authorizer: Arc<Authorizer>, allowed: Allowed, gone: Option<CancellationToken>) -> Self {
        let over = CancellationToken::new();
        let ending = over.clone();
        let task = async move {
            let still_allowed = async {
                let mut every = interval_at(tokio::time::Instant::now() + RENEWAL, RENEWAL);
                every.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    every.tick().await;
                    match authorizer.renew(&allowed).await {
                        Ok(()) => {}
                        Err(authorization::Error::Denied(_)) => return,
                        // A host that cannot answer has not said no; new requests are refused.
                        Err(error) => debug!(error = %error, "the lease cannot be renewed yet"),
                    }
                }
            };
            tokio::select! {
                biased;
                () = cancelled(gone) => info!("an open request ends with its member's connection"),
                () = still_allowed => info!("an open request ends with the right to it"),
            }
            ending.cancel();
        };
        Self { over, _task: AbortOnDropHandle::new(tokio::spawn(task.in_current_span())) }
    }

    /// Resolves when the request must end.
    pub fn over(&self) -> impl Future<Output = ()> + Send + use<> {
        self.over.clone().cancelled_owned()
    }
}

async fn cancelled(token: Option<CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

/// With a decision that may be 10 s old, a right that is taken away ends what it opened within 40 s.
const RENEWAL: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use http::Request;
    use serde_json::json;
    use tokio::time::timeout;

    use super::*;
    use crate::fake_host::host;
    use crate::identity::Identity;
    use crate::request_info::RequestInfo;

    /// A lease on a watch, whose right is there at first and stays or goes, and the token that ends it.
    async fn lease(stays: bool) -> (Lease, CancellationToken) {
        let began = AtomicBool::new(false);
        let (client, _) = host(move |_| {
            let status = json!({"allowed": stays || !began.swap(true, Ordering::SeqCst)});
            (
                201,
                json!({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": {}, "status": status}),
            )
        });
        let authorizer = Arc::new(Authorizer::new(client));
        let uri = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/pods?watch=1";
        let info =
            RequestInfo::parse(&Request::builder().uri(uri).header("host", "h").body(()).unwrap()).unwrap();
        // Too large for the cache, whose clock is not the paused one.
        let groups = vec!["g".repeat(10_000)];
        let jane = Arc::new(Identity { user: "jane".to_owned(), groups, ..Identity::default() });
        let permit = authorizer.authorize(&jane, &info).await.unwrap();
        let gone = CancellationToken::new();
        (Lease::grant(authorizer, permit, Some(gone.clone())), gone)
    }

    #[tokio::test(start_paused = true)]
    async fn it_lasts_as_long_as_the_right() {
        let (lease, _gone) = lease(true).await;
        assert!(timeout(Duration::from_secs(600), lease.over()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_over_soon_after_the_right_is_taken_away() {
        let (lease, _gone) = lease(false).await;
        assert!(timeout(Duration::from_secs(31), lease.over()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_over_at_once_with_the_member() {
        let (lease, gone) = lease(true).await;
        gone.cancel();
        assert!(timeout(Duration::from_secs(1), lease.over()).await.is_ok());
    }
}
