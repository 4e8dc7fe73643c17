//! Retries reviews at the host after a temporary failure (apiserver: `util/webhook.WithExponentialBackoff`
//! and `DefaultShouldRetry`). kube's client itself retries only answers with 429, 503 or 504.

use std::error::Error as StdError;
use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use kube::api::PostParams;
use kube::{Api, Error};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use crate::base::causes::causes;
use crate::base::random;

/// Sends a review, and retries temporary failures: at most [`STEPS`] attempts. The caller sets the timeout.
pub(crate) async fn review<K>(reviews: &Api<K>, review: &K) -> Result<K, Error>
where
    K: Clone + DeserializeOwned + fmt::Debug + Serialize,
{
    let mut pause = FIRST_PAUSE;
    for _ in 1..STEPS {
        match reviews.create(&PostParams::default(), review).await {
            Err(error) if is_passing(&error) => sleep(jittered(pause).max(asked_for(&error))).await,
            answer => return answer,
        }
        pause = pause.mul_f64(FACTOR);
    }
    reviews.create(&PostParams::default(), review).await
}

/// Whether the host is likely to answer a moment later.
fn is_passing(error: &Error) -> bool {
    match error {
        Error::Api(status) => matches!(status.code, 429 | 500 | 504) || !asked_for(error).is_zero(),
        Error::Service(error) => is_lost_connection(error.as_ref()),
        Error::HyperError(error) => is_lost_connection(error),
        _ => false,
    }
}

/// The pause that the host asks for, or zero.
fn asked_for(error: &Error) -> Duration {
    match error {
        Error::Api(status) => status
            .details
            .as_ref()
            .map_or(Duration::ZERO, |d| Duration::from_secs(d.retry_after_seconds.into())),
        _ => Duration::ZERO,
    }
}

/// Whether a connection ended before its answer, or was refused, for example during a restart of the server.
pub(crate) fn is_lost_connection(error: &(dyn StdError + 'static)) -> bool {
    let lost = |error: &(dyn StdError + 'static)| {
        let io = error.downcast_ref::<std::io::Error>().is_some_and(|error| {
            matches!(
                error.kind(),
                ErrorKind::ConnectionReset
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::ConnectionRefused
                    | ErrorKind::BrokenPipe
                    | ErrorKind::UnexpectedEof
            )
        });
        let hyper = error.downcast_ref::<hyper::Error>();
        io || hyper.is_some_and(|error| error.is_incomplete_message() || error.is_closed())
    };
    causes(error).any(lost)
}

/// Adds up to a fifth, so that requests that failed together are not retried together.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(random::fraction().mul_add(JITTER, 1.0))
}

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;
const STEPS: usize = 5;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::authentication::v1::TokenReview;
    use kube::{Client, Config};
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::Instant;
    use tokio_util::task::AbortOnDropHandle;

    use super::*;
    use crate::host::fake::host;

    /// Sends a review to a host that fails this many times and then answers. Returns whether the
    /// answer arrived, after how many requests, and how long it took.
    async fn asked(failures: usize, failure: (u16, Value)) -> (bool, usize, Duration) {
        let count = AtomicUsize::new(0);
        let (client, asked) = host(move |_| match count.fetch_add(1, Ordering::SeqCst) {
            n if n < failures => failure.clone(),
            _ => (
                201,
                json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {}}),
            ),
        });
        let reviews: Api<TokenReview> = Api::all(client);
        let began = Instant::now();
        let answer = review(&reviews, &TokenReview::default()).await;
        (answer.is_ok(), asked.load(Ordering::SeqCst), began.elapsed())
    }

    fn status(code: u16, details: Value) -> (u16, Value) {
        (code, json!({"kind": "Status", "status": "Failure", "code": code, "details": details}))
    }

    #[tokio::test(start_paused = true)]
    async fn temporary_failure_is_retried_with_backoff() {
        for code in [429, 500, 504] {
            let (answered, asked, took) = asked(4, status(code, json!({}))).await;
            assert!(answered && asked == 5, "{code}: {asked}");
            let least = Duration::from_millis(500 + 750 + 1125 + 1687);
            assert!(took >= least && took <= least.mul_f64(1.21), "{took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn review_fails_after_five_attempts() {
        let (answered, asked, _) = asked(5, status(500, json!({}))).await;
        assert!(!answered && asked == 5);
    }

    #[tokio::test(start_paused = true)]
    async fn permanent_failure_is_returned_at_once() {
        for code in [400, 401, 403, 422, 503] {
            let (answered, asked, took) = asked(1, status(code, json!({}))).await;
            assert!(!answered && asked == 1 && took.is_zero(), "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn retry_waits_as_long_as_the_host_asks() {
        let (answered, asked, took) = asked(1, status(503, json!({"retryAfterSeconds": 3}))).await;
        assert!(answered && asked == 2 && took >= Duration::from_secs(3), "{took:?}");
    }

    /// In real time and over a real connection, because only the client determines how a broken connection
    /// looks.
    #[tokio::test]
    async fn broken_connection_is_opened_again() {
        crate::connection::tls::install_provider();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let reviews: Api<TokenReview> = Api::all(Client::try_from(Config::new(uri)).unwrap());
        let _server = AbortOnDropHandle::new(tokio::spawn(async move {
            let mut head = [0; 16];
            let (mut broken, _) = listener.accept().await.unwrap();
            broken.read_exact(&mut head).await.unwrap();
            drop(broken);
            let (mut whole, _) = listener.accept().await.unwrap();
            whole.read_exact(&mut head).await.unwrap();
            let answer = b"HTTP/1.1 201 Created\r\ncontent-length: 25\r\n\r\n{\"metadata\":{},\"spec\":{}}";
            whole.write_all(answer).await.unwrap();
            std::future::pending::<()>().await;
        }));
        review(&reviews, &TokenReview::default()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_refused_connection_is_retried() {
        for (kind, again) in [(ErrorKind::ConnectionRefused, true), (ErrorKind::InvalidData, false)] {
            let asked = Arc::new(AtomicUsize::new(0));
            let count = asked.clone();
            let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
                count.fetch_add(1, Ordering::SeqCst);
                std::future::ready(Err::<http::Response<kube::client::Body>, _>(std::io::Error::from(kind)))
            });
            let reviews: Api<TokenReview> = Api::all(Client::new(service, "default"));
            assert!(review(&reviews, &TokenReview::default()).await.is_err());
            assert_eq!(asked.load(Ordering::SeqCst), if again { STEPS } else { 1 }, "{kind}");
        }
    }
}
