//! Turns errors of requests for a hub's objects into responses.

use http::StatusCode;
use kubectl_mc_api::Hop;

use super::Shape;
use crate::endpoints::hub_server::{Error, Refused};

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
        match error {
            Error::Refused(Refused::NotJson) => {
                Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType")
            }
            Error::Refused(Refused::TooLarge) => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge")
            }
            Error::Refused(_) => Self::FORBIDDEN,
            Error::Conflict(_) => Self::new(StatusCode::CONFLICT, "Conflict"),
            Error::Identity(_) => Self::INTERNAL,
            Error::Loop(_) | Error::BrokenBody => Self::BAD_REQUEST,
            Error::Late => Self::TIMEOUT,
            Error::Untrusted | Error::Invalid(_) => Self::BAD_GATEWAY,
            Error::Unreachable(_) => Self::UNAVAILABLE,
        }
    }
}
