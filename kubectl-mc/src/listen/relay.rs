//! Forwards a request to its cluster and the response back, and carries upgraded connections (RFC
//! 9110, 7.8). Bodies are streamed in both directions: each side reads as fast as the other one
//! accepts data.

use std::convert::Infallible;
use std::future::ready;

use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tower::service_fn;

use super::admission::Admission;
use super::clusters::Clusters;
use super::connection::Connection;
use super::headers::{self, Protocol};
use super::redirect;
use super::refusal::Refusal;
use super::target::{self, Target};

/// The listener's own part of each request.
pub(super) struct Relay {
    pub(super) admission: Admission,
    pub(super) clusters: Clusters,
}

impl Relay {
    /// The cluster's response, or a Status with the reason why there is none.
    pub(super) async fn answer(&self, request: Request<Incoming>, connection: &Connection) -> Response<Body> {
        self.pass_on(request, connection).await.unwrap_or_else(|refusal| refusal.response())
    }

    async fn pass_on(
        &self,
        mut request: Request<Incoming>,
        connection: &Connection,
    ) -> Result<Response<Body>, Refusal> {
        // This is the form for a forward proxy; a target without a path belongs to CONNECT or is
        // `*`.
        if request.uri().authority().is_some() || !METHODS.contains(request.method()) {
            return Err(Refusal::Head("has a method or a target that this listener does not serve"));
        }
        let host = self.admission.check(request.headers(), connection.scheme())?;
        let place = connection.prove()?;
        let upgrade = Protocol::of(request.headers());
        if upgrade.is_some() && !request.body().is_end_stream() {
            return Err(Refusal::Head("asks for an upgrade and has a body"));
        }
        let tool = upgrade.map(|protocol| (protocol, hyper::upgrade::on(&mut request)));
        let (head, body) = request.into_parts();
        let target = target::find(&self.clusters, &host, connection.server_name(), head.uri.path())?;
        let session = &target.cluster.session;
        if headers::impersonates(&head.headers) && session.impersonates() {
            return Err(Refusal::Impersonates);
        }
        let mut sent = Request::new(streamed(body).await.map_err(|error| no_answer(&target, &error))?);
        *sent.method_mut() = head.method;
        *sent.uri_mut() = uri(&target, head.uri.query())?;
        *sent.headers_mut() = headers::of_request(&head.headers, upgrade)?;
        let mut answer = session.send(sent).await.map_err(|error| Refusal::NoAnswer {
            cluster: target.cluster.name.clone(),
            reason: error.reason(),
        })?;

        let is_switch = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
        let protocol = Protocol::of(answer.headers()).filter(|_| is_switch);
        if is_switch && (protocol.is_none() || protocol != upgrade) {
            return Err(Refusal::Protocol { cluster: target.cluster.name.clone() });
        }
        let location = redirect::rewritten(answer.status(), answer.headers(), &target)?;
        if let Some((_, tool)) = tool.filter(|_| is_switch) {
            let cluster = hyper::upgrade::on(&mut answer);
            tokio::spawn(async move {
                splice(tool, cluster).await;
                drop(place);
            });
        }
        let (head, body) = answer.into_parts();
        let mut answer = Response::new(body);
        *answer.status_mut() = head.status;
        *answer.headers_mut() = headers::of_response(&head.headers, protocol);
        if let Some(location) = location {
            answer.headers_mut().insert(http::header::LOCATION, location);
        }
        Ok(answer)
    }
}

/// Carries the bytes of an upgraded connection both ways until both have ended.
async fn splice(client: OnUpgrade, server: OnUpgrade) {
    if let (Ok(client), Ok(server)) = tokio::join!(client, server) {
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        // Each side sees how the other one ended.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}

/// The target below the server of the cluster.
fn uri(target: &Target<'_>, query: Option<&str>) -> Result<Uri, Refusal> {
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let text = format!("{}{}{query}", target.cluster.root, target.path);
    let text = PathAndQuery::try_from(text).map_err(|_| Refusal::Path("is no valid URL"))?;
    Ok(text.into())
}

/// The same body, with the type of kube's client, which creates such a body only for a response.
async fn streamed(body: Incoming) -> Result<Body, kube::Error> {
    if body.is_end_stream() {
        return Ok(Body::empty());
    }
    let mut body = Some(body);
    let wrap = service_fn(move |request: Request<Body>| {
        let wrapped = body.take().map(http_body_util::Either::Left);
        ready(Ok::<_, Infallible>(Response::new(
            wrapped.unwrap_or_else(|| http_body_util::Either::Right(request.into_body())),
        )))
    });
    let wrapped = kube::Client::new(wrap, "default").send(Request::new(Body::empty())).await?;
    Ok(wrapped.into_body())
}

fn no_answer(target: &Target<'_>, error: &kube::Error) -> Refusal {
    Refusal::NoAnswer { cluster: target.cluster.name.clone(), reason: error.to_string() }
}

/// The methods of the Kubernetes API and of the programs behind its proxies.
const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
