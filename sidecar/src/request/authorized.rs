//! The right of a request: [`authorize`] checks it on the host, and [`Authorized::revalidated`]
//! revalidates it for as long as the request runs. Code that forwards or answers a request takes
//! one of the two values.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use kubectl_mc_api::Origin;
use tokio_util::sync::CancellationToken;

use crate::head::request_info::RequestInfo;
use crate::identity::Identity;
use crate::identity::authorization::Allowed;
use crate::identity::impersonation;
use crate::limits::in_flight::Caller;
use crate::request::error::Error;
use crate::request::record::{Begun, Record};
use crate::request::revalidation::{self, Revalidation};
use crate::request::services::Services;

/// Proof that the host authorized a request that has its seat and whose audit has begun.
#[derive(Debug)]
pub struct Authorized(Allowed);

/// Proof that an authorized request ends when it must: at its deadline or, without a deadline, when
/// it loses its right.
#[derive(Debug)]
pub struct Revalidated {
    identity: Arc<Identity>,
    due: Option<Instant>,
}

/// Applies the impersonation that the caller requests, and checks on the host every right that the request needs.
pub async fn authorize(
    services: &Services,
    begun: Begun,
    user: Caller,
    info: &RequestInfo,
    headers: &mut HeaderMap,
    record: &Record,
) -> Result<Authorized, Error> {
    let caller = begun.into_caller();
    let subject = match impersonation::requested(&caller, headers)? {
        Some(requested) => Box::pin(requested.check(&caller.identity, user, &services.authorizer)).await?,
        None => caller.identity.into(),
    };
    record.authenticated(subject.identity());
    let allowed = services.authorizer.authorize(subject, user, info).await?;
    record.allowed(allowed.reason());
    Ok(Authorized(allowed))
}

impl Authorized {
    pub fn identity(&self) -> &Arc<Identity> {
        self.0.identity()
    }

    /// The inventory to whose members the right is limited; `None` means every member.
    pub fn only_for(&self) -> Option<Origin> {
        self.0.only_for()
    }

    /// Starts the revalidation of a request without a `due` time. `gone` also ends such a request.
    pub fn revalidated(
        self,
        services: &Services,
        due: Option<Instant>,
        gone: Option<&CancellationToken>,
        record: &Record,
    ) -> Revalidated {
        match due {
            Some(_) => Revalidated { identity: self.0.into_identity(), due },
            None => self.revalidated_every(revalidation::INTERVAL, services, gone, record),
        }
    }

    /// Starts the revalidation of a long-running request with its own interval.
    pub fn revalidated_every(
        self,
        interval: Duration,
        services: &Services,
        gone: Option<&CancellationToken>,
        record: &Record,
    ) -> Revalidated {
        let Self(allowed) = self;
        let identity = allowed.identity().clone();
        let (authorizer, stop) = (services.authorizer.clone(), services.tunnels.stop.clone());
        let cutoff = record.hold().cutoff().clone();
        let revalidation = Revalidation::grant(authorizer, allowed, interval, stop, gone.cloned(), cutoff);
        record.hold().keep_revalidation(revalidation);
        Revalidated { identity, due: None }
    }
}

impl Revalidated {
    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    pub fn into_identity(self) -> Arc<Identity> {
        self.identity
    }

    /// The deadline of a request that is not long-running.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }
}
