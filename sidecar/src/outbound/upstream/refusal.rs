//! Recognizes refusals by a member that concern the sidecar and not the caller. They are recognized by the
//! Status of the member's apiserver. Only a small and complete Status is parsed; any other answer is
//! forwarded unchanged.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde::Deserialize;

use super::pool::MemberBody;

/// What a member refused to the sidecar.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The sidecar's credential, on a path where a program of the member's users could have answered.
    Credential,
    /// Impersonation, with the member's own message.
    Impersonation(String),
}

/// Parses a 401 or a 403.
pub(super) async fn read(
    response: Response<MemberBody>,
) -> Result<(Response<MemberBody>, Option<Refusal>), hyper::Error> {
    let length = response.body().size_hint().exact();
    let is_json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|t| t.as_bytes().starts_with(b"application/json"));
    if !is_json || length.is_none_or(|length| length > MAX_STATUS) {
        return Ok((response, None));
    }
    let (parts, mut body) = response.into_parts();
    let read = (&mut body).collect().await?.to_bytes();
    let refusal = of(parts.status, &read);
    Ok((Response::from_parts(parts, body.unread(read)), refusal))
}

fn of(code: StatusCode, body: &Bytes) -> Option<Refusal> {
    let status: Status<'_> = serde_json::from_slice(body).ok()?;
    match (status.kind, code) {
        ("Status", StatusCode::UNAUTHORIZED) if status.reason == "Unauthorized" => Some(Refusal::Credential),
        // apiserver: `responsewriters.forbiddenMessage` for the verb impersonate, and since 1.36 for
        // `impersonate:<mode>` and `impersonate-on:<mode>:<verb>` (KEP-5284). A caller cannot cause this
        // message otherwise, because its own impersonation never reaches a member.
        ("Status", StatusCode::FORBIDDEN) if status.message.contains("\" cannot impersonate") => {
            Some(Refusal::Impersonation(status.message))
        }
        _ => None,
    }
}

#[derive(Deserialize)]
struct Status<'a> {
    kind: &'a str,
    #[serde(default)]
    reason: &'a str,
    #[serde(default)]
    message: String,
}

/// A Status has some hundred bytes.
const MAX_STATUS: u64 = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u16, body: &str) -> Option<Refusal> {
        of(StatusCode::from_u16(code).unwrap(), &Bytes::from(body.to_owned()))
    }

    #[test]
    fn impersonation_refusal_differs_from_callers_refusal() {
        for ours in [
            r#"users "jane" is forbidden: User "system:serviceaccount:ns:imp" cannot impersonate resource "users" in API group "" at the cluster scope"#,
            r#"configmaps is forbidden: User "system:serviceaccount:ns:imp" cannot impersonate-on:user-info:list resource "configmaps" in API group "" in the namespace "default""#,
        ] {
            let body =
                serde_json::json!({"kind": "Status", "reason": "Forbidden", "message": ours}).to_string();
            assert_eq!(refusal(403, &body), Some(Refusal::Impersonation(ours.to_owned())));
        }
        let theirs = r#"{"kind":"Status","reason":"Forbidden","message":"pods is forbidden: User \"jane\" cannot list"}"#;
        assert_eq!(refusal(403, theirs), None);
    }

    #[test]
    fn programs_401_is_not_a_credential_refusal() {
        assert_eq!(refusal(401, r#"{"error":"log in"}"#), None);
        assert_eq!(refusal(401, "nonsense"), None);
        assert_eq!(refusal(401, r#"{"kind":"Status","reason":"Unauthorized"}"#), Some(Refusal::Credential));
    }
}
