//! Resolves a member's name, with a bound on concurrent lookups.
//!
//! The system's resolver blocks a thread, of which the process has 512, and cannot be interrupted: if a
//! caller gives up, the thread stays blocked. One member with silent name servers would take all threads, and
//! with them every other lookup and file access. So a lookup keeps its permit until its thread is free again,
//! and other callers wait for a permit only within the connect timeout.

use std::error::Error as StdError;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tokio::sync::Semaphore;
use tower_service::Service;

/// A resolver with a bound on concurrent lookups.
#[derive(Clone, Debug)]
pub(in super::super) struct Lookup<R = GaiResolver> {
    resolver: R,
    turns: Arc<Semaphore>,
}

impl Default for Lookup {
    fn default() -> Self {
        Self::new(GaiResolver::new())
    }
}

impl<R> Lookup<R> {
    fn new(resolver: R) -> Self {
        Self { resolver, turns: Arc::new(Semaphore::new(MAX_UNDER_WAY)) }
    }
}

type BoxError = Box<dyn StdError + Send + Sync>;

/// The name could not be resolved to an address.
#[derive(Debug, thiserror::Error)]
#[error("the name is not found")]
pub(in super::super) struct NotFound(#[source] BoxError);

impl<R> Service<Name> for Lookup<R>
where
    R: Service<Name> + Clone + Send + 'static,
    R::Response: Send,
    R::Error: Into<BoxError> + Send,
    R::Future: Send,
{
    type Response = R::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<R::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self { mut resolver, turns } = self.clone();
        Box::pin(async move {
            let turn = turns.acquire_owned().await?;
            // A separate task, because the caller may be dropped while the thread keeps its permit. The task
            // ends when the resolver does.
            let lookup = tokio::spawn(async move {
                let addresses = resolver.call(name).await;
                drop(turn);
                addresses
            });
            lookup.await?.map_err(|error| NotFound(error.into()).into())
        })
    }
}

/// Lookups take milliseconds with working name servers, and a member's connections are pooled.
const MAX_UNDER_WAY: usize = 4;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::vec;

    use futures_util::FutureExt;

    use super::*;

    /// Counts the lookups, and answers none until the test releases it.
    #[derive(Clone)]
    struct Silent {
        asked: Arc<AtomicUsize>,
        answers: Arc<Semaphore>,
    }

    impl Service<Name> for Silent {
        type Response = vec::IntoIter<SocketAddr>;
        type Error = std::io::Error;
        type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Name) -> Self::Future {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let answers = self.answers.clone();
            Box::pin(async move {
                answers.acquire().await.map_err(std::io::Error::other)?.forget();
                Ok(vec![SocketAddr::from(([203, 0, 113, 7], 0))].into_iter())
            })
        }
    }

    #[tokio::test]
    async fn abandoned_lookups_count_until_their_threads_end() {
        let silent = Silent { asked: Arc::default(), answers: Arc::new(Semaphore::new(0)) };
        let mut lookup = Lookup::new(silent.clone());
        let mut ask = || lookup.call("member.example".parse().unwrap());
        for _ in 0..3 * MAX_UNDER_WAY {
            let mut given_up = ask();
            assert!(given_up.as_mut().now_or_never().is_none());
            drop(given_up);
            tokio::task::yield_now().await;
        }
        assert_eq!(silent.asked.load(Ordering::SeqCst), MAX_UNDER_WAY);
        silent.answers.add_permits(MAX_UNDER_WAY + 1);
        assert_eq!(ask().await.unwrap().count(), 1);
    }
}
