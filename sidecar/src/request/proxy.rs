//! Forwards a request to a member. A [`Draft`] holds what the caller asked for and creates the [`Prepared`]
//! request; [`forward`] sends it and streams the answer back.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body as _;
use kubectl_mc_api::ClusterName;
use tokio::time::timeout_at;

use crate::head::headers;
use crate::head::protocol::Protocol;
use crate::head::request_info::MemberPath;
use crate::identity::Identity;
use crate::identity::impersonation::{self, member};
use crate::limits::in_flight::Caller;
use crate::limits::upload::Upload;
use crate::members::cluster::Cluster;
use crate::members::inventory::Inventory;
use crate::members::on_demand_access::{Answer, Outcome};
use crate::outbound::body::Body;
use crate::outbound::upstream::outgoing::{self, Outgoing};
use crate::outbound::upstream::prepared::Prepared;
use crate::outbound::upstream::{self, Error, MemberBody, Over};
use crate::request::authorized::Revalidated;
use crate::telemetry::spans::ToMember;

/// An authorized request of a caller, with everything that the member's request is made from. It is kept
/// until the member answers, because some requests must be sent again.
#[derive(Debug)]
pub struct Draft<'a> {
    parts: Parts,
    body: Outgoing,
    path: &'a MemberPath,
    upgrade: Option<Protocol>,
    /// Charged for the bytes of the answer in an agent's tunnel.
    caller: Caller,
    identity: Arc<Identity>,
    due: Option<Instant>,
    rules: &'a member::Rules,
    to_member: Option<Box<ToMember>>,
}

impl<'a> Draft<'a> {
    pub fn caller(&self) -> Caller {
        self.caller
    }

    /// The caller's headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    pub fn new(
        request: Request<Upload>,
        path: &'a MemberPath,
        upgrade: Option<Protocol>,
        caller: Caller,
        revalidated: Revalidated,
        rules: &'a member::Rules,
        to_member: Option<Box<ToMember>>,
    ) -> Self {
        let (parts, body) = request.into_parts();
        Self {
            parts,
            body: outgoing::callers(body),
            path,
            upgrade,
            caller,
            due: revalidated.due(),
            identity: revalidated.into_identity(),
            rules,
            to_member,
        }
    }

    /// Creates the member's request from the caller's. The first one takes the body.
    pub fn prepare(&mut self, cluster: &Cluster) -> Result<Prepared, crate::request::error::Error> {
        let identity = self.identity_headers(cluster).map_err(impersonation::Error::Member)?;
        let inner_proxy = self.path.is_inner_proxy();
        let mut headers = headers::forwarded(&self.parts.headers, inner_proxy);
        if let Some(protocol) = self.upgrade {
            headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(header::UPGRADE, HeaderValue::from_static(protocol.as_str()));
        }
        headers.insert(header::VIA, headers::via(&self.parts.headers, self.parts.version)?);
        if let Some(to_member) = &mut self.to_member {
            to_member.begin(&self.parts.method, &mut headers);
        }
        let connection = cluster.upstream.connection();
        let uri = connection.target(self.path.as_str(), self.parts.uri.query());
        let uri = uri.map_err(upstream::Error::Target)?;
        let body = std::mem::replace(&mut self.body, outgoing::nothing());
        let request = outgoing::request(self.parts.method.clone(), uri, headers, body);
        let prepared = Prepared::new(request, connection, &identity, inner_proxy);
        Ok(prepared.map_err(impersonation::Error::Member)?)
    }

    /// Ends the span of the exchange, with the status of the answer if there is one.
    pub fn answered(&mut self, code: Option<StatusCode>) {
        if let Some(to_member) = &mut self.to_member {
            to_member.ended(code);
        }
    }

    /// Resolves the final answer. If the member refuses impersonation, this finds out which rights the
    /// member's grant lacks, and grants them where possible. Then it calls `again`, if the request may be
    /// repeated.
    pub async fn settled<T, F: Future<Output = Result<T, Error>>>(
        &mut self,
        inventory: &Inventory,
        cluster: &Cluster,
        answered: Result<T, Error>,
        again: Option<impl FnOnce(Prepared) -> F>,
    ) -> Result<T, crate::request::error::Error> {
        let Err(Error::Impersonation { cluster: name, message, .. }) = answered else { return Ok(answered?) };
        self.answered(Some(StatusCode::FORBIDDEN));
        match (self.refused(inventory, cluster, name, message).await, again) {
            (Some(error), _) => Err(error.into()),
            (None, Some(again)) => Ok(again(self.prepare(cluster)?).await?),
            (None, None) => Err(Error::Granted { cluster: cluster.name.clone() }.into()),
        }
    }

    async fn refused(
        &self,
        inventory: &Inventory,
        cluster: &Cluster,
        name: ClusterName,
        message: String,
    ) -> Option<Error> {
        let rights = self.identity_headers(cluster).map(|headers| headers.rights()).unwrap_or_default();
        let Answer { outcome, lacking } =
            Box::pin(inventory.request_access(cluster, &self.identity, &rights)).await;
        match outcome {
            Outcome::Granted => None,
            Outcome::Busy => Some(Error::AccessQueueFull { cluster: name }),
            Outcome::Late | Outcome::NotGrantable => Some(Error::Impersonation {
                cluster: name,
                message,
                lacking,
                waited: outcome == Outcome::Late,
            }),
        }
    }

    fn identity_headers(&self, cluster: &Cluster) -> Result<member::Headers, member::Error> {
        let headers = member::Headers::new(self.rules, &self.identity, cluster.forwarded);
        headers.map_err(|error| error.on(&cluster.name))
    }

    /// Whether the request only reads, so that repeating it is harmless.
    fn is_safe(&self) -> bool {
        matches!(self.parts.method, Method::GET | Method::HEAD)
    }
}

/// Sends a request and streams the member's answer: the head first, then each chunk as it arrives. The head
/// must arrive before the request's deadline, if it has one.
pub async fn forward(
    inventory: &Inventory,
    cluster: &Cluster,
    mut draft: Draft<'_>,
) -> Result<Response<Body>, crate::request::error::Error> {
    let due = draft.due;
    let answered = {
        let mut answered = pin!(exchange(inventory, cluster, &mut draft));
        match due {
            None => answered.await,
            Some(due) => match timeout_at(due.into(), answered.as_mut()).await {
                Ok(answered) => answered,
                Err(_) => Err(Error::Late { cluster: cluster.name.clone() }.into()),
            },
        }
    };
    draft.answered(answered.as_ref().ok().map(Response::status));
    let answer = answered?;
    answer.body().charge(draft.caller);
    Ok(answer.map(Body::Upstream))
}

/// Sends a request. It is sent once more if the connection had been closed before, and once more
/// with another credential if the member refused the sidecar's credential and there is another one.
/// A request with a body is not repeated, because its body was already sent.
async fn exchange(
    inventory: &Inventory,
    cluster: &Cluster,
    draft: &mut Draft<'_>,
) -> Result<Response<MemberBody>, crate::request::error::Error> {
    let repeatable = draft.body.is_end_stream();
    let prepared = draft.prepare(cluster)?;
    let mut answered = cluster.upstream.send(prepared, Over::Any).await;
    // RFC 9112, 9.3.1, and RFC 9110, 9.2.2: a pooled connection may be closed at any time, even while a
    // request is written to it. A proxy may repeat idempotent requests; the sidecar repeats safe ones, once,
    // over a new connection.
    if matches!(answered, Err(Error::Stale { .. })) && repeatable && draft.is_safe() {
        answered = Box::pin(cluster.upstream.send(draft.prepare(cluster)?, Over::New)).await;
    }
    let is_refused = matches!(answered, Err(Error::Credential { .. }));
    if is_refused {
        draft.answered(Some(StatusCode::UNAUTHORIZED));
    }
    if is_refused
        && let Some(renewed) = Box::pin(inventory.renewed(cluster)).await
        && repeatable
    {
        answered = Box::pin(renewed.upstream.send(draft.prepare(&renewed)?, Over::Any)).await;
        let again = |prepared| renewed.upstream.send(prepared, Over::Any);
        return Box::pin(draft.settled(inventory, &renewed, answered, Some(again))).await;
    }
    match answered {
        Err(Error::Impersonation { .. }) => {
            let again = repeatable.then_some(|prepared| cluster.upstream.send(prepared, Over::Any));
            Box::pin(draft.settled(inventory, cluster, answered, again)).await
        }
        answered => Ok(answered?),
    }
}
