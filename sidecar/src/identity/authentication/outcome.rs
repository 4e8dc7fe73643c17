//! The outcome of an authentication.

use std::sync::Arc;

use super::credential_kinds::CredentialKinds;
use super::error::Error;
use crate::identity::Identity;

/// A caller whose credential was accepted.
#[derive(Clone, Debug)]
pub struct Authenticated {
    pub identity: Arc<Identity>,
    pub by: By,
}

/// The authenticator that accepted the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The host's front proxy sent the caller's identity. It has already applied the caller's impersonation.
    RequestHeader,
    ClientCertificate,
    Token,
    /// The caller is anonymous: there was no credential, and none is required.
    Nothing,
}

/// A failed login, and the kinds of credential that were tried.
#[derive(Clone, Debug)]
pub struct Failed {
    pub error: Error,
    pub attempted: CredentialKinds,
}
