//! A review of the caller's own rights that names no member: what the caller may do anywhere in the view. Lists and watches
//! are served for all members, so one member that allows them is enough; everything else needs a member's name.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::error::Error;
use super::failures::{Failure, Failures};
use super::list::answer_headers;
use super::read::Read;
use crate::outbound::body::{self, Body};
use crate::request::error::Error as RequestError;

/// The body of a review that names no member.
#[derive(Clone, Debug)]
pub(super) struct Unnamed(pub Bytes);

/// Answers a review by those of the members.
pub(super) async fn respond(read: Read, body: Unnamed) -> Result<Response<Body>, RequestError> {
    let Read { route, members, asker, .. } = read;
    let asked = stream::iter(members.all.clone()).map(|member| {
        let (asker, path, body) = (asker.clone(), route.path.clone(), body.0.clone());
        async move {
            let answer = asker.ask(&member, Method::POST, &path, "", Some(body)).await?;
            let whole = answer.whole(&asker, &member).await?;
            let review: Value = serde_json::from_slice(&whole.text)
                .map_err(|_| Failure::new(&member.name, StatusCode::BAD_GATEWAY, "the answer is not JSON"))?;
            Ok((review, whole))
        }
    });
    let mut asked = asked.buffered(AT_ONCE);
    let (mut found, mut failures) = (None, Failures::default());
    while let Some(answer) = asked.next().await {
        match answer {
            Ok((review, _charged)) => {
                let is_allowed = is_allowed(&review);
                if is_allowed || found.is_none() {
                    found = Some(review);
                }
                if is_allowed {
                    break;
                }
            }
            Err(failure) => failures.push(failure),
        }
    }
    let mut review = found.ok_or(Error::Incomplete(failures))?;
    restrict(&mut review);
    let mut response = body::response(StatusCode::CREATED, Body::from(review.to_string().into_bytes()));
    answer_headers(response.headers_mut());
    Ok(response)
}

/// A review of the caller's identity, or of a list of rules, has no verdict: the first one is as good as any.
fn is_allowed(review: &Value) -> bool {
    match review.pointer("/status/allowed") {
        Some(allowed) => allowed == true,
        None => review.get("kind").and_then(Value::as_str) != Some("SelfSubjectAccessReview"),
    }
}

/// Without a member nothing can be written.
fn restrict(review: &mut Value) {
    let Some(verb) = review.pointer("/spec/resourceAttributes/verb").and_then(Value::as_str) else { return };
    if !matches!(verb, "get" | "list" | "watch") {
        let reason = "the fleet view needs a member for this: qualify the namespace as <namespace>_<member>";
        review["status"] = json!({"allowed": false, "reason": reason});
    }
}

const AT_ONCE: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reads_are_allowed_without_a_member() {
        for (verb, expected) in
            [("list", true), ("watch", true), ("get", true), ("delete", false), ("*", false)]
        {
            let mut review = json!({"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {"verb": verb}}, "status": {"allowed": true}});
            restrict(&mut review);
            assert_eq!(review["status"]["allowed"], expected, "{verb}");
            assert_eq!(is_allowed(&review), expected);
        }
        assert!(is_allowed(&json!({"kind": "SelfSubjectReview", "status": {"userInfo": {}}})));
        assert!(!is_allowed(&json!({"kind": "SelfSubjectAccessReview", "status": {}})));
    }
}
