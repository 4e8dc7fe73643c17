//! Joins a cluster to a host, and removes it again.
//!
//! [`survey`] reads both sides, [`preflight`] evaluates the result, and [`steps`] writes: the
//! registration without a credential, then (as soon as the sidecar reaches the member) the member's
//! side, then the tokens. Each step is idempotent, and a failed join leaves its objects: the same
//! command continues from there. [`switch`] changes the connection of a member in use. [`renew`]
//! repeats only the last step. [`enroll`] writes only the host's side. [`restore`] recreates the
//! registrations of members that are [`lost`].

pub(crate) mod address;
pub(crate) mod agent;
pub(crate) mod bindable_roles;
pub(crate) mod cleanup;
pub(crate) mod command;
pub(crate) mod endpoint;
pub(crate) mod enroll;
pub(crate) mod here_document;
mod judge;
pub(crate) mod lost;
mod manifest;
pub(crate) mod member_context;
pub(crate) mod objects;
pub(crate) mod pem;
pub(crate) mod preflight;
pub(crate) mod print;
pub(crate) mod proxy_tls;
pub(crate) mod refusals;
pub(crate) mod renew;
pub(crate) mod restore;
pub(crate) mod role_changes;
pub(crate) mod service_accounts;
pub(crate) mod steps;
pub(crate) mod survey;
pub(crate) mod switch;
pub(crate) mod token_policy;
pub(crate) mod tokens;
pub(crate) mod unjoin;
pub(crate) mod wait;
