//! The purpose of a connection to a member. The sidecar states it in its CONNECT request, because
//! the agent sees only ciphertext.

use http::{HeaderMap, HeaderName, HeaderValue};

/// What a connection to a member carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Plain requests. A member that acknowledges nothing for a while is dead.
    Requests,
    /// An upgrade, or unknown: an earlier sidecar, or a request of another replica. A command may
    /// not read its input for hours, which TCP_USER_TIMEOUT cannot distinguish from a dead member
    /// (tcp(7)).
    Any,
}

impl Purpose {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        if headers.get(HEADER).is_some_and(|value| value == REQUESTS) { Self::Requests } else { Self::Any }
    }

    pub(super) fn tell(self, headers: &mut HeaderMap) {
        match self {
            Self::Requests => _ = headers.insert(HEADER, HeaderValue::from_static(REQUESTS)),
            Self::Any => {}
        }
    }
}

/// An agent of an earlier release ignores it.
const HEADER: HeaderName = HeaderName::from_static("kubectl-mc-carries");
const REQUESTS: &str = "requests";
