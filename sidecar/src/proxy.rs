//! What is sent to a member: [`prepare`] makes it, and nothing else can; [`forward`] sends it and
//! streams the answer back.

use std::time::Instant;

use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, Response, Uri};
use hyper::body::Incoming;
use tokio::time::timeout_at;

use crate::authorization::Allowed;
use crate::body::Body;
use crate::headers;
use crate::impersonation::{self, member};
use crate::inventory::Cluster;
use crate::request_info::MemberPath;
use crate::upgrade::Protocol;
use crate::upstream::{self, Error};

/// A request that is ready for a member: clean headers, the member's address, our credential and
/// exactly one authenticated identity. Only [`prepare`] makes one.
#[derive(Debug)]
pub struct Prepared<B = Incoming> {
    request: Request<B>,
    inner_proxy: bool,
}

impl<B> Prepared<B> {
    /// Whether a program of the member's users answers, and not the member itself.
    pub fn is_inner_proxy(&self) -> bool {
        self.inner_proxy
    }

    /// Gives up the request to be sent.
    pub fn into_request(self) -> Request<B> {
        self.request
    }
}

/// Makes the member's request out of the caller's: headers cleaned, then credential and identity
/// set, last, so that nothing a client sends can add to them.
pub fn prepare<B>(
    request: Request<B>,
    path: &MemberPath,
    upgrade: Option<Protocol>,
    allowed: &Allowed,
    rules: &member::Rules,
    cluster: &Cluster,
) -> Result<Prepared<B>, crate::Error> {
    let identity = member::Headers::new(rules, allowed.identity(), cluster.impersonation)
        .map_err(impersonation::Error::Member)?;
    let (parts, body) = request.into_parts();
    let mut headers = headers::forwarded(&parts.headers, path.is_inner_proxy());
    if let Some(protocol) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static(protocol.as_str()));
    }
    let connection = cluster.upstream.connection();
    headers.insert(header::HOST, connection.host());
    if let Some(token) = connection.authorization() {
        headers.insert(header::AUTHORIZATION, token);
    }
    identity.apply(&mut headers).map_err(impersonation::Error::Member)?;
    self_check(&headers)?;

    let uri = connection.uri(path.as_str(), parts.uri.query()).map_err(upstream::Error::Target)?;
    Ok(Prepared { request: with(parts.method, uri, headers, body), inner_proxy: path.is_inner_proxy() })
}

/// Sends a request and passes the member's answer on, head first and then each chunk as it comes.
/// The head must be there when the request is `due`, if it ever is.
pub async fn forward(
    cluster: &Cluster,
    prepared: Prepared,
    due: Option<Instant>,
) -> Result<Response<Body>, Error> {
    let sent = cluster.upstream.send(prepared);
    match due {
        None => sent.await,
        Some(due) => match timeout_at(due.into(), sent).await {
            Ok(answered) => answered,
            Err(_) => Err(Error::Late { cluster: cluster.name.clone() }),
        },
    }
}

/// Our credential with no identity beside it would act as ourselves: better nothing is sent.
fn self_check(headers: &HeaderMap) -> Result<(), impersonation::Error> {
    let users = headers.get_all(impersonation::USER).iter().count();
    match users {
        1 => Ok(()),
        _ => Err(impersonation::Error::Member(member::Error::Present)),
    }
}

fn with<B>(method: Method, uri: Uri, headers: HeaderMap, body: B) -> Request<B> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    request
}
