//! Builds the requests that may be sent to a member. No other type is sent, so no request reaches a member
//! without an identity.

use http::{HeaderMap, Request, header};

use super::connection::Connection;
use super::outgoing::Outgoing;
use crate::identity::front_proxy_headers;
use crate::identity::impersonation::{USER, member};

/// A request that is ready for a member: filtered headers, the member's address, the sidecar's credential and
/// exactly one authenticated identity.
#[derive(Debug)]
pub struct Prepared {
    request: Request<Outgoing>,
    inner_proxy: bool,
}

impl Prepared {
    /// Sets the credential and the identity last, so that nothing from a client can add to them. The request
    /// already has a member's target and filtered headers.
    pub fn new(
        mut request: Request<Outgoing>,
        connection: &Connection,
        identity: &member::Headers,
        inner_proxy: bool,
    ) -> Result<Self, member::Error> {
        let headers = request.headers_mut();
        headers.insert(header::HOST, connection.host());
        if let Some(token) = connection.authorization() {
            headers.insert(header::AUTHORIZATION, token);
        }
        identity.apply(headers)?;
        self_check(headers)?;
        Ok(Self { request, inner_proxy })
    }

    /// A request to the server of a hub, which accepts the identity from its front proxy. The
    /// connection's credential is the client certificate of that front proxy, which other servers
    /// do not accept.
    pub fn for_hub_server(
        mut request: Request<Outgoing>,
        connection: &Connection,
        identity: &front_proxy_headers::Headers,
    ) -> Result<Self, member::Error> {
        let headers = request.headers_mut();
        headers.insert(header::HOST, connection.host());
        identity.apply(headers)?;
        match headers.get_all(front_proxy_headers::USER).iter().count() {
            1 => Ok(Self { request, inner_proxy: false }),
            _ => Err(member::Error::Present),
        }
    }

    /// Whether a program of the member's users answers, and not the member itself.
    pub(super) fn is_inner_proxy(&self) -> bool {
        self.inner_proxy
    }

    /// Unwraps the request for sending.
    pub(super) fn into_request(self) -> Request<Outgoing> {
        self.request
    }
}

#[cfg(test)]
impl Prepared {
    /// A request for a test without a member.
    pub(super) fn empty() -> Self {
        Self { request: Request::new(super::outgoing::nothing()), inner_proxy: false }
    }
}

/// A credential without an identity would act as the sidecar itself, so such a request is not sent.
fn self_check(headers: &HeaderMap) -> Result<(), member::Error> {
    let users = headers.get_all(USER).iter().count();
    match users {
        1 => Ok(()),
        _ => Err(member::Error::Present),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn request_needs_exactly_one_user() {
        let mut headers = HeaderMap::new();
        assert!(self_check(&headers).is_err(), "as ourselves");
        headers.append(USER, HeaderValue::from_static("jane"));
        self_check(&headers).unwrap();
        headers.append(USER, HeaderValue::from_static("root"));
        assert!(self_check(&headers).is_err(), "as two");
    }
}
