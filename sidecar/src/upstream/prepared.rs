//! A request that may be sent to a member. Nothing else is, so no request reaches one without an identity.

use http::{HeaderMap, Request, header};

use super::connection::Connection;
use super::outgoing::Outgoing;
use crate::identity::front_proxy_headers;
use crate::identity::impersonation::{USER, member};

/// A request that is ready for a member: clean headers, the member's address, our credential and
/// exactly one authenticated identity.
#[derive(Debug)]
pub struct Prepared {
    request: Request<Outgoing>,
    inner_proxy: bool,
}

impl Prepared {
    /// Sets the credential and the identity, last, so that nothing a client sends can add to them. The request has
    /// a member's target and headers that were cleaned.
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

    /// A request to the server of a hub, which takes the identity from its front proxy. The connection's credential is the
    /// client certificate of that front proxy, and proves nothing to other servers.
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

    /// Gives up the request to be sent.
    pub(super) fn into_request(self) -> Request<Outgoing> {
        self.request
    }
}

/// Our credential with no identity beside it would act as ourselves: better nothing is sent.
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
    fn nothing_is_sent_without_exactly_one_user() {
        let mut headers = HeaderMap::new();
        assert!(self_check(&headers).is_err(), "as ourselves");
        headers.append(USER, HeaderValue::from_static("jane"));
        self_check(&headers).unwrap();
        headers.append(USER, HeaderValue::from_static("root"));
        assert!(self_check(&headers).is_err(), "as two");
    }
}
