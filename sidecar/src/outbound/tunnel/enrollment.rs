//! Enrollment requests to agents, and their answers.

use std::time::Duration;

use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};

/// The data that an agent sends. It does not implement `Debug`, because its tokens must not reach a log.
#[derive(Deserialize, Serialize)]
pub struct Handover {
    #[serde(rename = "ca.crt")]
    pub ca: String,
    /// The uid of the member's kube-system.
    pub uid: String,
    pub tokens: Tokens,
}

/// The tokens of the sidecar's accounts on the member.
#[derive(Deserialize, Serialize)]
pub struct Tokens {
    pub impersonator: String,
    pub manager: String,
}

/// A request to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Send the member's CA and tokens.
    Enroll,
    /// The host has stored them: delete the right to send them.
    Confirm,
}

/// An agent's answer, not validated yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: StatusCode,
    pub body: String,
}

impl Request {
    pub(super) fn method(self) -> Method {
        match self {
            Self::Enroll => Method::GET,
            Self::Confirm => Method::DELETE,
        }
    }
}

/// The capability that an agent reports if it supports enrollment.
pub const CAPABILITY: &str = "enroll";
/// A CA may be a bundle of many certificates.
pub(super) const MAX_ANSWER: usize = 64 * 1024;
/// The agent sends a few requests to its own API server.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
