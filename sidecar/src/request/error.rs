//! All errors of a request. They remain values until [`crate::request::status`] turns them into a
//! response, which names the hop.

use crate::connection::head_limit;
use crate::endpoints::clusters;
use crate::endpoints::hub_server;
use crate::head::deadline;
use crate::head::headers;
use crate::head::offer;
use crate::head::request_info;
use crate::identity::authentication;
use crate::identity::authorization;
use crate::identity::impersonation;
use crate::limits::in_flight;
use crate::members::inventory;
use crate::observe::panics;
use crate::outbound::upstream;
use crate::request::agent_handshake;
use crate::request::cors;
use crate::request::fleet::error::Error as FleetError;
use crate::request::revalidation;
use crate::telemetry::audit;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    RequestInfo(#[from] request_info::Error),
    #[error(transparent)]
    Head(#[from] head_limit::TooLarge),
    #[error(transparent)]
    Deadline(#[from] deadline::Error),
    #[error(transparent)]
    Authentication(#[from] authentication::Error),
    #[error(transparent)]
    Origin(#[from] cors::ForeignOrigin),
    #[error(transparent)]
    Audit(#[from] audit::NotStored),
    #[error(transparent)]
    Impersonation(#[from] impersonation::Error),
    #[error(transparent)]
    Limits(#[from] in_flight::Error),
    #[error(transparent)]
    Authorization(#[from] authorization::Error),
    #[error(transparent)]
    Clusters(clusters::Error),
    #[error(transparent)]
    Fleet(#[from] FleetError),
    #[error(transparent)]
    HubServer(#[from] hub_server::Error),
    #[error(transparent)]
    Inventory(#[from] inventory::Error),
    #[error(transparent)]
    Loop(#[from] headers::Loop),
    #[error(transparent)]
    Upstream(#[from] upstream::Error),
    #[error(transparent)]
    Upgrade(#[from] offer::NotAccepted),
    #[error(transparent)]
    Attach(#[from] agent_handshake::Error),
    #[error("the sidecar is shutting down, try again")]
    Closing,
    #[error(transparent)]
    Ended(#[from] revalidation::End),
    #[error(transparent)]
    Panicked(#[from] panics::Panicked),
}

impl From<clusters::Error> for Error {
    fn from(error: clusters::Error) -> Self {
        match error {
            clusters::Error::Authorization(error) => error.into(),
            error => Self::Clusters(error),
        }
    }
}
