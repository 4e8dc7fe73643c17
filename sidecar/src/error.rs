//! Every reason why a request gets no answer from its member. Errors are values until
//! [`crate::status`] turns them into a response; here they only say which hop they come from.

use std::fmt;

use crate::{
    authentication, authorization, clusters, deadline, head_limit, headers, impersonation, inventory, lease,
    limits, panics, request_info, upgrade, upstream,
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
    Ended(#[from] lease::End),
    #[error(transparent)]
    Panicked(#[from] panics::Panicked),
}

/// The step between the caller and the member's answer at which a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hop {
    /// The request itself is not one that is served here.
    Request,
    HostAuthentication,
    HostAuthorization,
    /// The sidecar has more to do than it may.
    Sidecar,
    ClusterUnknown,
    ProxyOff,
    MemberUnreachable,
    MemberAuthentication,
    MemberImpersonation,
}

impl Hop {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::HostAuthentication => "host authentication",
            Self::HostAuthorization => "host authorization",
            Self::Sidecar => "sidecar",
            Self::ClusterUnknown => "cluster unknown",
            Self::ProxyOff => "proxy off",
            Self::MemberUnreachable => "member unreachable",
            Self::MemberAuthentication => "member authentication",
            Self::MemberImpersonation => "member impersonation",
        }
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
