//! Turns errors into responses. Only this module chooses status codes and names the hop that refused.
//!
//! The body is `metav1.Status` as a kube-apiserver writes it (apimachinery: `api/errors`). kubectl hides a
//! JSON Status that answers one of its discovery calls to a member, and prints plain text. So
//! discovery calls are answered in plain text, with 403 if the caller is refused and 502 for any
//! other failure.

use http::{HeaderValue, Response, StatusCode, header};
use kubectl_mc_api::Hop;
use serde::Serialize;

use crate::endpoints::clusters::Error as Clusters;
use crate::fleet::bodies::Error as Bodies;
use crate::head::headers;
use crate::head::request_info::Error as RequestInfo;
use crate::head::request_info::fleet::Error as FleetRoute;
use crate::identity::authentication::Error as Authentication;
use crate::identity::authorization::{Denied, Error as Authorization};
use crate::identity::impersonation::{Error as Impersonation, member};
use crate::members::inventory::Error as Inventory;
use crate::outbound::body::{self, Body, TEXT};
use crate::outbound::tunnel::accounts;
use crate::outbound::tunnel::protocol::REPLICA_HEADER;
use crate::outbound::tunnel::registry::{DialError, Refused};
use crate::outbound::upstream::Error as Upstream;
use crate::request::agent_handshake::Error as Attach;
use crate::request::error::Error;
use crate::request::fleet::error::Error as Fleet;
use crate::request::record::Record;
use crate::request::revalidation::End;

mod hub_server;
mod retry_after;

use retry_after::{A_SECOND, RetryAfter};

/// Turns an error into the response to its request.
pub fn response(error: &Error, record: &Record) -> Response<Body> {
    let hop = hop(error);
    record.refused_at(hop);
    let shape = Shape::of(error);
    record.audit(|trail| {
        if let Some(denied) = denied(error) {
            trail.decided(false, denied.reason().clone());
        }
        trail.refused(shape.reason, message(error, shape.code));
    });
    let mut response = if record.is_member_discovery() {
        text(hop, shape.code, &message(error, shape.code))
    } else {
        json(hop, &shape, error)
    };
    let headers = response.headers_mut();
    headers.insert(headers::HOP, HeaderValue::from_static(hop.as_str()));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if let Some(again) = shape.retry_after.and_then(RetryAfter::value) {
        headers.insert(header::RETRY_AFTER, again);
    }
    if let Error::Attach(Attach::Refused(Refused::Held(replica))) = error
        && let Ok(replica) = HeaderValue::try_from(replica)
    {
        headers.insert(REPLICA_HEADER, replica);
    }
    if shape.code == StatusCode::BAD_REQUEST {
        // The sender may interpret the following bytes on this connection differently.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The hop where a request failed.
fn hop(error: &Error) -> Hop {
    match error {
        Error::RequestInfo(_)
        | Error::Head(_)
        | Error::Deadline(_)
        | Error::Origin(_)
        | Error::Loop(_)
        | Error::Clusters(_) => Hop::Request,
        Error::Fleet(Fleet::TooMany) => Hop::Sidecar,
        Error::Fleet(Fleet::Incomplete(_) | Fleet::Malformed(..)) => Hop::MemberUnreachable,
        Error::Fleet(Fleet::Forbidden(_)) => Hop::Member,
        Error::Fleet(_) => Hop::Request,
        Error::Authentication(_) => Hop::HostAuthentication,
        Error::Attach(Attach::NotItsAgent { .. } | Attach::Account(accounts::Unknown::Deleted(_))) => {
            Hop::HostAuthorization
        }
        Error::Attach(Attach::Handshake(_)) => Hop::Request,
        Error::Attach(Attach::Account(accounts::Unknown::NotSynced) | Attach::Refused(_)) => Hop::Sidecar,
        Error::Authorization(_) | Error::Impersonation(_) => Hop::HostAuthorization,
        Error::Limits(_) | Error::Closing | Error::Panicked(_) | Error::Audit(_) => Hop::Sidecar,
        Error::Inventory(Inventory::NotSynced) => Hop::Sidecar,
        Error::Inventory(Inventory::Unknown(..)) => Hop::ClusterUnknown,
        Error::Inventory(Inventory::ProxyOff { .. }) => Hop::ProxyOff,
        Error::HubServer(error) => hub_server::hop(error),
        Error::Upstream(Upstream::Credential { .. }) => Hop::MemberAuthentication,
        Error::Upstream(
            Upstream::Impersonation { .. } | Upstream::Granted { .. } | Upstream::AccessQueueFull { .. },
        ) => Hop::MemberImpersonation,
        Error::Upstream(Upstream::Agent { .. }) => Hop::Agent,
        Error::Ended(End::Denied | End::Unconfirmed) => Hop::HostAuthorization,
        Error::Ended(End::Stopped) => Hop::Sidecar,
        Error::Ended(End::MemberGone) => Hop::MemberUnreachable,
        Error::Upstream(Upstream::Target(_)) => Hop::Request,
        Error::Upstream(_) | Error::Upgrade(_) => Hop::MemberUnreachable,
    }
}

/// Code, reason and retry of one error.
struct Shape {
    code: StatusCode,
    reason: &'static str,
    /// Set only if nothing was done at a member, because clients then repeat the request.
    retry_after: Option<RetryAfter>,
}

impl Shape {
    const BAD_REQUEST: Self = Self::new(StatusCode::BAD_REQUEST, "BadRequest");
    const FORBIDDEN: Self = Self::new(StatusCode::FORBIDDEN, "Forbidden");
    const NOT_FOUND: Self = Self::new(StatusCode::NOT_FOUND, "NotFound");
    const TOO_MANY: Self = Self::in_a_second(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests");
    const INTERNAL: Self = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError");
    const BAD_GATEWAY: Self = Self::new(StatusCode::BAD_GATEWAY, "BadGateway");
    const UNAVAILABLE: Self = Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable");
    const SOON_AVAILABLE: Self = Self::in_a_second(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable");
    const TIMEOUT: Self = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout");

    const fn new(code: StatusCode, reason: &'static str) -> Self {
        Self { code, reason, retry_after: None }
    }

    const fn in_a_second(code: StatusCode, reason: &'static str) -> Self {
        Self { code, reason, retry_after: A_SECOND }
    }

    fn of(error: &Error) -> Self {
        match error {
            Error::RequestInfo(RequestInfo::NotFound(_)) => Self::NOT_FOUND,
            Error::RequestInfo(RequestInfo::Method(_)) => {
                Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed")
            }
            Error::Head(_) => {
                Self::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "RequestHeaderFieldsTooLarge")
            }
            Error::RequestInfo(RequestInfo::Fleet(error)) => Self::of_fleet_route(error),
            Error::RequestInfo(_) | Error::Deadline(_) | Error::Loop(_) => Self::BAD_REQUEST,
            Error::Origin(_) => Self::FORBIDDEN,
            Error::Authentication(Authentication::TooManyReviews) | Error::Limits(_) => Self::TOO_MANY,
            Error::Authentication(Authentication::Review) => Self::SOON_AVAILABLE,
            Error::Panicked(_) | Error::Audit(_) => Self::INTERNAL,
            Error::Authentication(_) => Self::new(StatusCode::UNAUTHORIZED, "Unauthorized"),
            Error::Authorization(error) => Self::of_authorization(error),
            Error::Impersonation(Impersonation::Denied(error)) => Self::of_authorization(error),
            Error::Impersonation(Impersonation::Member(
                member::Error::Privileged(_)
                | member::Error::NotSent(_)
                | member::Error::AccountsOmitted { .. },
            )) => Self::FORBIDDEN,
            Error::Impersonation(Impersonation::Member(_) | Impersonation::LeftByHost(_)) => Self::INTERNAL,
            Error::Impersonation(_) => Self::BAD_REQUEST,
            Error::Clusters(error) => Self::of_clusters(error),
            Error::Fleet(error) => Self::of_fleet(error),
            Error::Attach(error) => Self::of_attach(error),
            Error::HubServer(error) => Self::of_hub_server(error),
            Error::Inventory(Inventory::Unknown(..)) => Self::NOT_FOUND,
            Error::Closing | Error::Inventory(Inventory::NotSynced) => Self::SOON_AVAILABLE,
            Error::Ended(End::Denied) => Self::FORBIDDEN,
            // The member may have executed a part of it. So there is no Retry-After, which would
            // make clients repeat the request.
            Error::Ended(End::Stopped | End::MemberGone | End::Unconfirmed) => Self::UNAVAILABLE,
            Error::Inventory(Inventory::ProxyOff { .. }) => Self::UNAVAILABLE,
            Error::Upstream(
                Upstream::Redirect { .. }
                | Upstream::RedirectPastHost { .. }
                | Upstream::Switched { .. }
                | Upstream::Malformed { .. }
                | Upstream::Broken(_),
            )
            | Error::Upgrade(_) => Self::BAD_GATEWAY,
            Error::Upstream(Upstream::Open { cause, .. }) => {
                Self { retry_after: Some(RetryAfter::of(cause)), ..Self::UNAVAILABLE }
            }
            Error::Upstream(Upstream::Agent { cause, .. }) => Self::of_agent(cause),
            Error::Upstream(Upstream::Impersonation { .. }) => Self::FORBIDDEN,
            // The member refused the request, so nothing was done.
            Error::Upstream(Upstream::Granted { .. }) => Self::SOON_AVAILABLE,
            Error::Upstream(Upstream::AccessQueueFull { .. }) => Self::TOO_MANY,
            Error::Upstream(Upstream::Late { .. }) => Self::TIMEOUT,
            Error::Upstream(Upstream::Target(_)) => Self::BAD_REQUEST,
            Error::Upstream(_) => Self::UNAVAILABLE,
        }
    }

    fn of_authorization(error: &Authorization) -> Self {
        match error {
            Authorization::Denied(_) => Self::FORBIDDEN,
            Authorization::TooManyReviews => Self::TOO_MANY,
            // A kube-apiserver answers 500 here. Nothing was done at a member, so clients may repeat the
            // request.
            Authorization::Review => Self::SOON_AVAILABLE,
        }
    }

    /// Nothing was sent to the member.
    fn of_agent(cause: &DialError) -> Self {
        match cause {
            DialError::Full => Self::TOO_MANY,
            DialError::NoAgent { since } => {
                Self { retry_after: Some(RetryAfter::of_agent(*since)), ..Self::UNAVAILABLE }
            }
            DialError::Broken(_) | DialError::Ended => Self::SOON_AVAILABLE,
            DialError::NotTheTarget(_) | DialError::Unexpected(_) => Self::BAD_GATEWAY,
            DialError::Failed(_) | DialError::Silent => Self::UNAVAILABLE,
        }
    }

    fn of_attach(error: &Attach) -> Self {
        match error {
            Attach::NotItsAgent { .. } | Attach::Account(accounts::Unknown::Deleted(_)) => Self::FORBIDDEN,
            Attach::Account(accounts::Unknown::NotSynced) => Self::SOON_AVAILABLE,
            Attach::Handshake(_) => Self::BAD_REQUEST,
            Attach::Refused(Refused::Held(_)) => Self::new(StatusCode::CONFLICT, "AlreadyExists"),
            Attach::Refused(Refused::Full(_) | Refused::TooOften(_)) => Self::TOO_MANY,
        }
    }

    fn of_fleet(error: &Fleet) -> Self {
        match error {
            Fleet::TooMany => Self::TOO_MANY,
            Fleet::NotAcceptable => Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable"),
            Fleet::Body(Bodies::Format(_)) => {
                Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType")
            }
            Fleet::Body(Bodies::TooLarge) => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge")
            }
            Fleet::Body(_) | Fleet::Unnamed => Self::BAD_REQUEST,
            Fleet::Several { .. } => Self::new(StatusCode::CONFLICT, "Conflict"),
            Fleet::Off | Fleet::NotFound(_) => Self::NOT_FOUND,
            Fleet::Incomplete(_) => Self::UNAVAILABLE,
            Fleet::Forbidden(_) => Self::FORBIDDEN,
            Fleet::Expired => Self::new(StatusCode::GONE, "Expired"),
            Fleet::Malformed(..) => Self::BAD_GATEWAY,
        }
    }

    fn of_fleet_route(error: &FleetRoute) -> Self {
        match error {
            FleetRoute::NotFound(_) => Self::NOT_FOUND,
            FleetRoute::NotAllowed(_) => Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            FleetRoute::ForeignVersion(..) => Self::new(StatusCode::GONE, "Expired"),
            FleetRoute::Path(_)
            | FleetRoute::Legacy
            | FleetRoute::TwoMembers(..)
            | FleetRoute::Unqualified
            | FleetRoute::Selector(..) => Self::BAD_REQUEST,
        }
    }

    fn of_clusters(error: &Clusters) -> Self {
        match error {
            Clusters::Authorization(error) => Self::of_authorization(error),
            Clusters::NotSynced => Self::SOON_AVAILABLE,
            Clusters::NotFound(_) => Self::NOT_FOUND,
            Clusters::BadRequest(_) => Self::BAD_REQUEST,
            Clusters::Expired => Self::new(StatusCode::GONE, "Expired"),
            Clusters::TooLargeResourceVersion { .. } => Self { retry_after: A_SECOND, ..Self::TIMEOUT },
            Clusters::NotAcceptable(_) => Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable"),
        }
    }
}

/// `metav1.Status`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: serde_json::Map<String, serde_json::Value>,
    status: &'static str,
    message: String,
    reason: &'static str,
    details: Details<'a>,
    code: u16,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Details<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    causes: Vec<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u32>,
}

#[derive(Serialize)]
struct Cause {
    reason: &'static str,
    message: &'static str,
}

fn json(hop: Hop, shape: &Shape, error: &Error) -> Response<Body> {
    let (group, kind, name) = object(error);
    let mut causes = vec![Cause { reason: "Hop", message: hop.as_str() }];
    if matches!(error, Error::Clusters(Clusters::TooLargeResourceVersion { .. })) {
        causes.insert(0, Cause { reason: "ResourceVersionTooLarge", message: "Too large resource version" });
    }
    let status = Status {
        kind: "Status",
        api_version: "v1",
        metadata: serde_json::Map::new(),
        status: "Failure",
        message: message(error, shape.code),
        reason: shape.reason,
        details: Details {
            name: &name,
            group,
            kind,
            causes,
            retry_after_seconds: shape.retry_after.and_then(RetryAfter::seconds),
        },
        code: shape.code.as_u16(),
    };
    // A struct of strings and numbers always serializes.
    let body = serde_json::to_vec(&status).unwrap_or_default();
    body::document(shape.code, "application/json", body)
}

/// The human-readable text. An unauthenticated caller learns nothing else: kubectl recognizes this text and
/// prints its own about a failed login.
fn message(error: &Error, code: StatusCode) -> String {
    match error {
        Error::Authentication(_) if code == StatusCode::UNAUTHORIZED => "Unauthorized".to_owned(),
        error => error.to_string(),
    }
}

/// The host's denial, if the error is one.
fn denied(error: &Error) -> Option<&Denied> {
    match error {
        Error::Authorization(Authorization::Denied(denied))
        | Error::Impersonation(Impersonation::Denied(Authorization::Denied(denied))) => Some(denied),
        _ => None,
    }
}

/// The object of the error: group, kind and name.
fn object(error: &Error) -> (&'static str, &'static str, String) {
    use kubectl_mc_api::path::{CLUSTERS, PROXY_GROUP};
    let cluster = |name: &dyn ToString| (PROXY_GROUP, CLUSTERS, name.to_string());
    if let Some(denied) = denied(error) {
        return match denied.details() {
            Some((group, resource, name)) => (group, resource, name.to_owned()),
            None => ("", "", String::new()),
        };
    }
    match error {
        Error::Inventory(Inventory::Unknown(group, name)) => {
            (group.grant_group(), group.grant_resource(), name.to_string())
        }
        Error::Inventory(Inventory::ProxyOff { cluster: name, .. }) => cluster(name),
        Error::Clusters(Clusters::NotFound(name)) => cluster(name),
        Error::Upstream(error) => error.cluster().map_or(("", "", String::new()), |name| cluster(name)),
        _ => ("", "", String::new()),
    }
}

fn text(hop: Hop, code: StatusCode, message: &str) -> Response<Body> {
    let refused = matches!(code, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND);
    let code = if refused { StatusCode::FORBIDDEN } else { StatusCode::BAD_GATEWAY };
    body::document(code, TEXT, format!("{hop}: {message}"))
}

#[cfg(test)]
mod tests;
