//! Every reason why a request gets no answer from its member. Errors are values until
//! [`crate::status`] turns them into a response, which names the hop.

use crate::{
    authentication, authorization, clusters, deadline, head_limit, headers, impersonation, inventory, limits,
    panics, request_info, revalidation, upgrade, upstream,
};

/// Why a request was not answered as asked.
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
    Impersonation(#[from] impersonation::Error),
    #[error(transparent)]
    Limits(#[from] limits::Error),
    #[error(transparent)]
    Authorization(#[from] authorization::Error),
    #[error(transparent)]
    Clusters(#[from] clusters::Error),
    #[error(transparent)]
    Inventory(#[from] inventory::Error),
    #[error(transparent)]
    Loop(#[from] headers::Loop),
    #[error(transparent)]
    Upstream(#[from] upstream::Error),
    #[error(transparent)]
    Upgrade(#[from] upgrade::Error),
    #[error("the sidecar is shutting down, try again")]
    Closing,
    #[error(transparent)]
    Ended(#[from] revalidation::End),
    #[error(transparent)]
    Panicked(#[from] panics::Panicked),
}
