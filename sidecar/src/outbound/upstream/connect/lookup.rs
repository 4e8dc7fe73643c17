//! Resolves a member's name, with bounds on concurrent lookups.
//!
//! The system's resolver blocks one of the 512 threads of its runtime and cannot be interrupted: if
//! a caller gives up, the thread stays blocked. Members with silent name servers would take all
//! threads, and with them the lookups of the host's name and file access. So a lookup needs two
//! permits, one of its member's and one of all lookups ([`Places`]), and keeps both until its
//! thread is free again.

use std::error::Error as StdError;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use tower_service::Service;

use super::super::timeouts::CONNECT_TIMEOUT;
use crate::base::causes::causes;

mod places;

use places::{ALL, Places};

/// A resolver with bounds on concurrent lookups.
#[derive(Clone, Debug)]
pub(in super::super) struct Lookup<R = GaiResolver> {
    resolver: R,
    turns: Arc<Semaphore>,
    places: Arc<Places>,
}

impl Default for Lookup {
    fn default() -> Self {
        Self::new(GaiResolver::new(), ALL.clone())
    }
}

impl<R> Lookup<R> {
    fn new(resolver: R, places: Arc<Places>) -> Self {
        Self { resolver, turns: Arc::new(Semaphore::new(MAX_OF_MEMBER)), places }
    }
}

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// Why there is no address for a name.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum Error {
    #[error("the name is not found")]
    NotFound(#[source] BoxError),
    #[error("cannot look up {0}: its name servers do not answer; check DNS where mc-sidecar runs")]
    Silent(Name),
    /// The lookup did not start.
    #[error(
        "cannot look up {0}: DNS is slow, and too many lookups of other names wait for it; \
         check DNS where mc-sidecar runs"
    )]
    Crowded(Name),
}

impl Error {
    /// Whether a failure says nothing about the member, because its lookup did not start.
    pub(super) fn is_crowded(error: &(dyn StdError + 'static)) -> bool {
        causes(error).any(|error| matches!(error.downcast_ref(), Some(Self::Crowded(_))))
    }
}

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
        let Self { mut resolver, turns, places } = self.clone();
        Box::pin(async move {
            let end = Instant::now() + TIMEOUT;
            let permits =
                async { Ok::<_, BoxError>((turns.acquire_owned().await?, places.take(&name).await?)) };
            let Ok(permits) = timeout(PERMIT_TIMEOUT, permits).await else {
                let is_slow = places.is_slow(&name);
                return Err(if is_slow { Error::Silent(name) } else { Error::Crowded(name) }.into());
            };
            let (turn, place) = permits?;
            // A separate task, because the caller may be dropped while the thread keeps its permits. The task
            // ends when the resolver does.
            let looked_up = name.clone();
            let lookup = tokio::spawn(async move {
                let addresses = places.hold(place, &name, resolver.call(name.clone())).await;
                drop(turn);
                addresses
            });
            let addresses = timeout_at(end, lookup).await.map_err(|_| Error::Silent(looked_up))?;
            addresses?.map_err(|error| Error::NotFound(error.into()).into())
        })
    }
}

/// Lookups take milliseconds with working name servers, and a member's connections are pooled.
const MAX_OF_MEMBER: usize = 4;
/// Part of [`TIMEOUT`].
const PERMIT_TIMEOUT: Duration = Duration::from_secs(3);
/// Leaves time for TCP and TLS, and ends before the connect timeout, whose error would not name DNS.
const TIMEOUT: Duration = CONNECT_TIMEOUT.saturating_sub(Duration::from_secs(2));

#[cfg(test)]
mod tests;
