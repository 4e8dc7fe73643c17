//! The headers of a request to a member whose answer is renamed: only JSON can be, and only if it is not compressed.

use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderValue};
use http::{HeaderMap, HeaderName};

/// The headers with the JSON forms that the client accepts, or `None` if it accepts none.
pub(super) fn json_only(headers: &HeaderMap) -> Option<HeaderMap> {
    let mut headers = unconditional(headers);
    let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let accepted: Vec<_> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
    let accepted: Vec<_> = accepted.into_iter().filter(|one| !one.is_empty()).map(str::to_owned).collect();
    let json: Vec<_> = accepted.iter().filter_map(|one| json(one)).collect();
    if !accepted.is_empty() && json.is_empty() {
        return None;
    }
    let json = if json.is_empty() { "application/json".to_owned() } else { json.join(",") };
    headers.insert(ACCEPT, HeaderValue::try_from(json).ok()?);
    headers.remove(ACCEPT_ENCODING);
    Some(headers)
}

/// The headers without conditions on a member's own document.
pub(super) fn unconditional(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in CONDITIONS {
        headers.remove(HeaderName::from_static(name));
    }
    headers
}

/// Whether the client takes no incomplete answer (RFC 7240).
pub(super) fn is_strict(headers: &HeaderMap) -> bool {
    let lines = headers.get_all("prefer").iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split([',', ';'])).any(|preference| {
        preference.split_once('=').is_some_and(|(name, value)| {
            name.trim().eq_ignore_ascii_case("handling") && value.trim().trim_matches('"') == "strict"
        })
    })
}

/// A form of JSON, with its parameters; any form is JSON here.
fn json(accepted: &str) -> Option<String> {
    let (media, parameters) = accepted.split_once(';').map_or((accepted, ""), |(media, rest)| (media, rest));
    match media.trim().to_ascii_lowercase().as_str() {
        "application/json" => Some(accepted.to_owned()),
        "*/*" | "application/*" => {
            let separator = if parameters.is_empty() { "" } else { ";" };
            Some(format!("application/json{separator}{parameters}"))
        }
        _ => None,
    }
}

/// A renamed answer is not the document that a member's ETag names.
const CONDITIONS: [&str; 3] = ["if-none-match", "if-modified-since", "range"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_is_asked_for() {
        const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let list = format!("{TABLE},application/json");
        for (accept, expected) in [
            ("", Some("application/json")),
            ("*/*", Some("application/json")),
            ("application/*;q=0.5", Some("application/json;q=0.5")),
            (list.as_str(), Some(list.as_str())),
            ("application/vnd.kubernetes.protobuf, application/json", Some("application/json")),
            ("application/vnd.kubernetes.protobuf", None),
            ("text/plain", None),
        ] {
            let headers = HeaderMap::from_iter([
                (ACCEPT, HeaderValue::from_static(Box::leak(accept.to_owned().into_boxed_str()))),
                (ACCEPT_ENCODING, HeaderValue::from_static("gzip")),
            ]);
            let found = json_only(&headers);
            assert_eq!(found.as_ref().map(|headers| headers[ACCEPT].to_str().unwrap()), expected, "{accept}");
            assert!(found.is_none_or(|headers| !headers.contains_key(ACCEPT_ENCODING)));
        }
    }
}
