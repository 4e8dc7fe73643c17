//! Revalidates the right of a long-running request. The request was allowed when it began;
//! afterwards the sidecar repeats the review at an interval. The right ends on a denial, after ten
//! minutes without an answer, when the member is deleted, when its connection changes to another
//! address, and when the process ends.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, debug, warn};

use crate::identity::authorization::{self, Allowed, Authorizer};
use crate::limits::cutoff::{self, Cutoff};

/// Held by a long-running request for as long as it runs.
#[derive(Debug)]
pub struct Revalidation {
    over: CancellationToken,
    why: Arc<OnceLock<End>>,
    _task: AbortOnDropHandle<()>,
}

/// Why a long-running request may not continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    #[error("the sidecar is shutting down, try again")]
    Stopped,
    #[error(
        "the member was deleted, or its connection changed, while the request was in progress, try again"
    )]
    MemberGone,
    #[error("the host revoked the right to this request while it was in progress")]
    Denied,
    #[error("the host has not reconfirmed the right to this request in time, try again")]
    Unconfirmed,
}

impl End {
    /// The reason in audit events and traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "sidecar shut down",
            Self::MemberGone => "member deleted or changed",
            Self::Denied => "right revoked",
            Self::Unconfirmed => "right not confirmed",
        }
    }
}

impl Revalidation {
    /// Starts the revalidation of a request that was just allowed. `stop` and `gone` end it at once. A
    /// request that then does not end by itself, because its client reads nothing, is cut off.
    pub fn grant(
        authorizer: Arc<Authorizer>,
        allowed: Allowed,
        interval: Duration,
        stop: CancellationToken,
        gone: Option<CancellationToken>,
        cutoff: Arc<Cutoff>,
    ) -> Self {
        let (over, why) = (CancellationToken::new(), Arc::new(OnceLock::new()));
        let (ending, told) = (over.clone(), why.clone());
        let task = async move {
            let end = tokio::select! {
                biased;
                () = stop.cancelled() => End::Stopped,
                () = cancelled(gone) => End::MemberGone,
                end = lapsed(&authorizer, &allowed, interval) => end,
            };
            debug!(why = %end, "long-running request ended");
            let _ = told.set(end);
            ending.cancel();
            sleep(cutoff::GRACE).await;
            cutoff.cut();
        };
        Self { over, why, _task: AbortOnDropHandle::new(tokio::spawn(task.in_current_span())) }
    }

    /// Resolves when the request must end, with the reason.
    pub async fn ended(&self) -> End {
        self.over.cancelled().await;
        self.why.get().copied().unwrap_or(End::Stopped)
    }

    /// The reason why the request must end, once it must.
    pub fn end(&self) -> Option<End> {
        self.why.get().copied()
    }

    /// Whether the request must end now.
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Resolves when the request must end.
    pub fn over(&self) -> impl Future<Output = ()> + Send + use<> {
        self.over.clone().cancelled_owned()
    }
}

/// Resolves when the host denies the right, or has not confirmed it for too long.
async fn lapsed(authorizer: &Authorizer, allowed: &Allowed, interval: Duration) -> End {
    let mut confirmed = Instant::now();
    let mut every = interval_at(confirmed + interval, interval);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        // Boxed, because every open request has such a task, and few of them call the host at any moment.
        match Box::pin(authorizer.renew(allowed)).await {
            Ok(()) => confirmed = Instant::now(),
            Err(authorization::Error::Denied(_)) => return End::Denied,
            Err(error) if confirmed.elapsed() >= UNCONFIRMED => {
                warn!(error = %error, "authorization not confirmed by the host for too long");
                return End::Unconfirmed;
            }
            // A failure of the host is not a denial, but new requests are refused in the meantime.
            Err(error) => debug!(error = %error, "authorization not confirmed yet"),
        }
    }
}

async fn cancelled(token: Option<CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

/// Decisions are cached for up to 10 s, so a request ends within 40 s after its right was revoked.
pub const INTERVAL: Duration = Duration::from_secs(30);
/// Time for the host's control plane to restart or fail over. It is bounded, because an attacker who blocks
/// the reviews must not keep a right forever.
const UNCONFIRMED: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use http::{HeaderMap, HeaderValue, Request};
    use serde_json::json;
    use tokio::time::timeout;

    use super::*;
    use crate::head::request_info::RequestInfo;
    use crate::host::fake::host;
    use crate::identity::Identity;
    use crate::identity::authentication::{self, Authenticated};
    use crate::identity::impersonation;
    use crate::limits::in_flight::Caller;

    /// The host's later answers about a right that it granted once.
    #[derive(Clone, Copy, PartialEq)]
    enum Then {
        Stays,
        Goes,
        Silence,
    }

    /// Too large for the cache, because the cache does not use the paused clock.
    fn identity(user: &str) -> Arc<Identity> {
        let groups = vec!["g".repeat(10_000)];
        Arc::new(Identity { user: user.to_owned(), groups, ..Identity::default() })
    }

    /// A revalidation of jane's watch, or of bob's watch as jane, and the token that ends it. The
    /// host's later answers about `verb` are `then`; other rights do not change.
    async fn revalidation(verb: &'static str, then: Then, by: By) -> (Revalidation, CancellationToken) {
        let granted = AtomicBool::new(false);
        let (client, _) = host(move |review| {
            let asked = review["spec"]["resourceAttributes"]["verb"] == verb;
            let concerned = asked && granted.swap(true, Ordering::SeqCst);
            if concerned && then == Then::Silence {
                return (500, json!({"kind": "Status", "status": "Failure", "code": 500}));
            }
            let status = json!({"allowed": !(concerned && then == Then::Goes)});
            (
                201,
                json!({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": {}, "status": status}),
            )
        });
        let authorizer = Arc::new(Authorizer::new(client));
        let uri = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/pods?watch=1";
        let info =
            RequestInfo::parse(&Request::builder().uri(uri).header("host", "h").body(()).unwrap()).unwrap();
        let subject = match by {
            By::Jane => identity("jane").into(),
            By::BobAsJane => {
                let caller = Authenticated { identity: identity("bob"), by: authentication::By::Token };
                let mut headers = HeaderMap::new();
                headers.insert("impersonate-user", HeaderValue::from_static("jane"));
                let asked = impersonation::requested(&caller, &mut headers).unwrap().unwrap();
                asked.check(&caller.identity, Caller::of_hash(1), &authorizer).await.unwrap()
            }
        };
        let permit = authorizer.authorize(subject, Caller::of_hash(1), &info).await.unwrap();
        let gone = CancellationToken::new();
        (
            Revalidation::grant(
                authorizer,
                permit,
                INTERVAL,
                CancellationToken::new(),
                Some(gone.clone()),
                Arc::default(),
            ),
            gone,
        )
    }

    enum By {
        Jane,
        BobAsJane,
    }

    async fn is_over_within(revalidation: &Revalidation, seconds: u64) -> bool {
        timeout(Duration::from_secs(seconds), revalidation.over()).await.is_ok()
    }

    #[test]
    fn revalidation_future_is_small() {
        fn future<'a, F: Future>(_: impl Fn(&'a Authorizer, &'a Allowed, Duration) -> F) -> usize {
            size_of::<F>()
        }
        assert!(future(lapsed) <= 256, "{} bytes: box what is rarely awaited", future(lapsed));
    }

    #[tokio::test(start_paused = true)]
    async fn revalidation_lasts_as_long_as_the_right() {
        let (revalidation, _gone) = revalidation("get", Then::Stays, By::Jane).await;
        assert!(!is_over_within(&revalidation, 3600).await);
    }

    #[tokio::test(start_paused = true)]
    async fn fault_73_revoked_right_ends_the_stream_soon() {
        let (revalidation, _gone) = revalidation("get", Then::Goes, By::Jane).await;
        assert!(is_over_within(&revalidation, 31).await);
    }

    #[tokio::test(start_paused = true)]
    async fn fault_73_lost_impersonation_right_ends_the_stream() {
        let (revalidation, _gone) = revalidation("impersonate", Then::Goes, By::BobAsJane).await;
        assert!(is_over_within(&revalidation, 31).await);
        let (revalidation, _gone) = self::revalidation("impersonate", Then::Stays, By::BobAsJane).await;
        assert!(!is_over_within(&revalidation, 3600).await);
    }

    #[tokio::test(start_paused = true)]
    async fn stream_survives_ten_minutes_of_host_outage() {
        let (revalidation, _gone) = revalidation("get", Then::Silence, By::Jane).await;
        assert!(!is_over_within(&revalidation, 590).await);
        assert!(is_over_within(&revalidation, 60).await);
    }

    #[tokio::test(start_paused = true)]
    async fn fault_73_member_deletion_ends_the_stream_at_once() {
        let (revalidation, gone) = revalidation("get", Then::Stays, By::Jane).await;
        gone.cancel();
        assert!(is_over_within(&revalidation, 1).await);
    }
}
