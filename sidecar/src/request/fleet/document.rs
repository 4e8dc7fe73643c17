//! Documents about the API: the union of the members' discovery, and what any member can answer for all.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use super::error::Error;
use super::failures::{Failure, Failures};
use super::list::tell;
use super::negotiated;
use super::negotiated::is_strict;
use super::read::Read;
use crate::fleet::documents::Union;
use crate::head::request_info::MemberPath;
use crate::outbound::body::Body;
use crate::request::error::Error as RequestError;

/// Answers a GET of a document.
pub(super) async fn respond(read: Read) -> Result<Response<Body>, RequestError> {
    match is_merged(&read.route.path) {
        true => union(read).await,
        false => first(read).await,
    }
}

/// Whether a document merges those of all members. The schema of one group version, the version and the health are
/// those of any member that has them.
fn is_merged(path: &MemberPath) -> bool {
    let path = path.as_str();
    path.starts_with("/api") || path.trim_end_matches('/') == "/openapi/v3"
}

async fn union(read: Read) -> Result<Response<Body>, RequestError> {
    let Read { route, query, headers, members, asker, record } = read;
    let (path, query) = (Arc::new(route.path), query.unwrap_or_default());
    let asked = stream::iter(members.all.clone()).map(|member| {
        let (asker, path, query) = (asker.clone(), path.clone(), query.clone());
        async move {
            let answer = asker.get(&member, &path, &query).await?;
            let content_type = answer.response.headers().get(header::CONTENT_TYPE).cloned();
            let whole = answer.whole(&asker, &member).await?;
            let document: Value = serde_json::from_slice(&whole.text)
                .map_err(|_| Failure::new(&member.name, StatusCode::BAD_GATEWAY, "the answer is not JSON"))?;
            Ok::<_, Failure>((member, content_type, document, whole))
        }
    });
    let mut asked = asked.buffered(AT_ONCE);
    let (mut union, mut content_type, mut failures) = (Union::default(), None, Failures::default());
    while let Some(answer) = asked.next().await {
        match answer {
            Ok((member, of, document, _charged)) => match union.add(document) {
                Ok(()) => content_type = content_type.or(of),
                Err(error) => {
                    failures.push(Failure::new(&member.name, StatusCode::NOT_ACCEPTABLE, error.to_string()));
                }
            },
            // Not every member has every group.
            Err(failure) if failure.code == StatusCode::NOT_FOUND => {}
            Err(failure) => failures.push(failure),
        }
    }
    tell(&record, &failures);
    let Some(document) = union.into_document() else {
        return Err(match failures.is_empty() {
            true => Error::NotFound(format!("the path {}", path.as_str())),
            false => Error::Incomplete(failures),
        }
        .into());
    };
    if is_strict(&headers) && !failures.is_empty() {
        return Err(Error::Incomplete(failures).into());
    }
    let mut response = Response::new(Body::from(document.to_string().into_bytes()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type.unwrap_or(json));
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    failures.warn(response.headers_mut());
    Ok(response)
}

/// The answer of the first member that gives one, as it is.
async fn first(read: Read) -> Result<Response<Body>, RequestError> {
    let Read { route, query, headers, members, mut asker, .. } = read;
    asker.headers = negotiated::unconditional(&headers);
    let query = query.unwrap_or_default();
    let mut failures = Failures::default();
    for member in &members.all {
        match asker.get(member, &route.path, &query).await {
            Ok(answer) => return Ok(answer.into_response()),
            Err(failure) => failures.push(failure),
        }
    }
    Err(match failures.are_all(StatusCode::NOT_FOUND) || failures.is_empty() {
        true => Error::NotFound(format!("the path {}", route.path.as_str())),
        false => Error::Incomplete(failures),
    }
    .into())
}

/// Documents are up to 4 MiB each.
const AT_ONCE: usize = 8;
