//! An object by a name without a member: the one of the only member that has it. Several members are an error that names
//! them, because the client's next request may be a write.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use http::{Response, StatusCode};
use kubectl_mc_api::fleet::names;

use super::error::Error;
use super::failures::Failures;
use super::list::{Question, answer_headers, tell};
use super::negotiated::is_strict;
use super::read::Read;
use crate::fleet::renamer::{Renamer, Shown};
use crate::head::query::Query;
use crate::outbound::body::Body;
use crate::request::error::Error as RequestError;

/// Answers a get.
pub(super) async fn respond(read: Read) -> Result<Response<Body>, RequestError> {
    let Read { route, query, headers, members, asker, record } = read;
    let question = Arc::new(Question::new(&route.path, &route.resource, Query::new(query.as_deref())));
    let path = &question.path;
    let name = path.as_str().rsplit('/').next().unwrap_or_default().to_owned();
    let asked = stream::iter(members.all.clone()).map(|member| {
        let (asker, question) = (asker.clone(), question.clone());
        async move {
            let query = question.selectors.trim_start_matches('&');
            let answer = asker.get(&member, &question.path, query).await;
            (member, answer)
        }
    });
    let mut asked = asked.buffered(AT_ONCE);
    let (mut holders, mut document, mut failures) = (Vec::new(), None, Failures::default());
    while let Some((member, answer)) = asked.next().await {
        match answer {
            Ok(answer) => {
                holders.push(member.name.clone());
                if document.is_none() {
                    let whole = answer.whole(&asker, &member).await;
                    document = Some((member, whole));
                }
            }
            Err(failure) if failure.code == StatusCode::NOT_FOUND => {}
            Err(failure) => failures.push(failure),
        }
    }
    let is_one = names::is_merged_resource(&route.resource.group, &route.resource.name);
    if holders.len() > 1 && !is_one {
        return Err(Error::Several { resource: route.resource.name, name, members: holders }.into());
    }
    let (member, document) = match document {
        Some(found) => found,
        None if failures.is_empty() => {
            return Err(Error::NotFound(format!("{} {name:?}", route.resource.name)).into());
        }
        None if failures.0.len() == members.all.len() && failures.are_all(StatusCode::FORBIDDEN) => {
            return Err(Error::Forbidden(failures).into());
        }
        // A member that does not answer may have it.
        None => return Err(Error::Incomplete(failures).into()),
    };
    if is_strict(&headers) && !failures.is_empty() {
        return Err(Error::Incomplete(failures).into());
    }
    let document = document.map_err(|failure| Error::Incomplete(Failures(vec![failure])))?;
    let shown = Shown::new(question.with_cluster);
    let renamed = Renamer::new(member.name.clone(), question.of, shown).document(&document.text);
    let renamed = renamed.map_err(|error| Error::Malformed(member.name.clone(), error))?;
    tell(&record, &failures);
    let mut response = Response::new(Body::from(renamed));
    answer_headers(response.headers_mut());
    failures.warn(response.headers_mut());
    Ok(response)
}

const AT_ONCE: usize = 32;
