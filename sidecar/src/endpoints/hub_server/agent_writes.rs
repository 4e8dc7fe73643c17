//! Sends the write of an agent in the form that [`super::agents`] allows: reads the stored Cluster as the
//! agent, and writes based on the version that was read.

use http::request::Parts;
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::agents::{Judged, MAX_WRITE, Part, Refused, Write};
use super::{Error, HubServer, prepared, whole};
use crate::head::headers;
use crate::identity::Identity;
use crate::limits::upload::Upload;
use crate::outbound::body::Body;
use crate::outbound::upstream::outgoing;
use crate::outbound::upstream::{MemberBody, Over};

/// Answers the write of a cluster's agent.
pub(super) async fn respond(
    server: &HubServer,
    cluster: &str,
    part: Part,
    parts: &Parts,
    identity: &Identity,
    body: Upload,
) -> Result<Response<Body>, Error> {
    let body = match Limited::new(body, MAX_WRITE).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(Refused::TooLarge.into()),
        Err(_) => return Err(Error::BrokenBody),
    };
    let write = Write::read(part, &parts.method, &parts.headers, &body)?;
    let namespace = &server.config.namespace;
    if part == Part::New {
        let document = write.judge_new(cluster, namespace)?;
        return Ok(send(server, cluster, &write, parts, identity, document).await?.map(Body::Upstream));
    }
    let mut attempt = 1;
    loop {
        let stored = server.ask(&Part::Object.path(cluster), "application/json", identity).await?;
        match stored.status() {
            StatusCode::OK => {}
            // The server would give this answer to the write: the Cluster does not exist, or the
            // agent may not use it.
            status if status.is_client_error() || status.is_server_error() => {
                return Ok(stored.map(Body::Upstream));
            }
            status => {
                return Err(Error::Invalid(format!("it answered {status} to a GET of Cluster {cluster}")));
            }
        }
        let stored = serde_json::from_slice(&whole(stored).await?);
        let stored = stored.map_err(|_| Error::invalid("it sent no JSON"))?;
        let Judged::Sent(document) = write.judge(cluster, namespace, &stored)? else {
            return Err(Error::Conflict(cluster.to_owned()));
        };
        let answer = send(server, cluster, &write, parts, identity, document).await?;
        let is_over =
            answer.status() != StatusCode::CONFLICT || write.expects_version()? || attempt >= ATTEMPTS;
        if is_over {
            return Ok(answer.map(Body::Upstream));
        }
        attempt += 1;
    }
}

async fn send(
    server: &HubServer,
    cluster: &str,
    write: &Write,
    parts: &Parts,
    identity: &Identity,
    document: Vec<u8>,
) -> Result<Response<MemberBody>, Error> {
    let upstream = server.upstream.load_full();
    let mut sent: HeaderMap = headers::forwarded(&parts.headers, false);
    sent.insert(header::VIA, headers::via(&parts.headers, parts.version)?);
    // The caller's headers describe the caller's text.
    sent.remove(header::CONTENT_ENCODING);
    sent.insert(header::CONTENT_TYPE, write.media_type());
    let (path, query) = (write.part().path(cluster), parts.uri.query());
    let body = outgoing::document(document);
    let request = prepared(&upstream, parts.method.clone(), &path, query, sent, identity, body)?;
    Ok(upstream.send(request, Over::Any).await?)
}

/// The number of times that a kube-apiserver applies a patch to a new version (apiserver:
/// `endpoints/handlers/patch.go`).
const ATTEMPTS: u32 = 5;
