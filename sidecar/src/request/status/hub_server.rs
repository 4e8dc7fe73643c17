//! Turns errors of requests for a hub's objects into responses.

use http::StatusCode;
use kubectl_mc_api::Hop;

use super::Shape;
use crate::hub_server::{Error, Refused};

/// The hop where a request failed.
pub(super) fn hop(error: &Error) -> Hop {
    match error {
        Error::Refused(Refused::NotJson | Refused::TooLarge) | Error::Loop(_) | Error::BrokenBody => {
            Hop::Request
        }
        Error::Refused(_) | Error::Identity(_) => Hop::HostAuthorization,
        _ => Hop::KarmadaServer,
    }
}

impl Shape {
    pub(super) fn of_hub_server(error: &Error) -> Self {
        let (code, reason) = match error {
            Error::Refused(Refused::NotJson) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType"),
            Error::Refused(Refused::TooLarge) => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            Error::Refused(_) => (StatusCode::FORBIDDEN, "Forbidden"),
            Error::Identity(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
            Error::Loop(_) | Error::BrokenBody => (StatusCode::BAD_REQUEST, "BadRequest"),
            Error::Late => (StatusCode::GATEWAY_TIMEOUT, "Timeout"),
            Error::Untrusted | Error::Invalid(_) => (StatusCode::BAD_GATEWAY, "BadGateway"),
            Error::Unreachable(_) => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
        };
        Self { code, reason, retry_after: None }
    }
}
