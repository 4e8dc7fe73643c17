//! Redacts and truncates the texts of a request for its events, so that these contain no credential and have
//! a bounded size.

use http::{HeaderMap, Uri, header};
use percent_encoding::percent_decode_str;

/// The target of a request, with credentials in its parameters redacted.
pub(super) fn request_uri(uri: &Uri) -> String {
    let names =
        || uri.query().unwrap_or_default().split('&').filter_map(|parameter| parameter.split_once('='));
    let Some(query) = uri.query().filter(|_| names().any(|(name, _)| is_credential(name))) else {
        return uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string);
    };
    let parameters = query.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, _)) if is_credential(name) => format!("{name}=REDACTED"),
        _ => parameter.to_owned(),
    });
    format!("{}?{}", uri.path(), parameters.collect::<Vec<_>>().join("&"))
}

/// The target of a request without a login, also truncated.
pub(super) fn strangers_uri(uri: &Uri) -> String {
    truncated(&request_uri(uri), MAX_STRANGERS_URI)
}

/// A message without the queries of its URLs, because a member's redirect may contain a credential.
pub(super) fn without_queries(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for word in message.split_inclusive([' ', '"']) {
        match word.split_once('?').filter(|(path, _)| path.contains('/')) {
            Some((path, query)) => {
                text.push_str(path);
                text.push_str("?REDACTED");
                text.extend(query.chars().next_back().filter(|end| [' ', '"'].contains(end)));
            }
            None => text.push_str(word),
        }
    }
    text
}

fn is_credential(name: &str) -> bool {
    percent_decode_str(name).decode_utf8_lossy().to_ascii_lowercase().contains("token")
}

/// The user agent, truncated as in a kube-apiserver.
pub(super) fn user_agent(headers: &HeaderMap) -> String {
    let text = headers.get(header::USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()));
    truncated(&text.unwrap_or_default(), MAX_USER_AGENT)
}

fn truncated(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        Some((end, _)) => format!("{}...TRUNCATED", &text[..end]),
        None => text.to_owned(),
    }
}

/// In characters.
const MAX_USER_AGENT: usize = 1024;
const MAX_STRANGERS_URI: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_urls_in_a_message_are_removed() {
        for (message, expected) in [
            (
                "redirects: request https://x/login?token=secret",
                "redirects: request https://x/login?REDACTED",
            ),
            ("to \"/a?code=1\" and /b?c d", "to \"/a?REDACTED\" and /b?REDACTED d"),
            ("why? because a/b", "why? because a/b"),
        ] {
            assert_eq!(without_queries(message), expected);
        }
    }

    #[test]
    fn credential_in_a_target_is_redacted_in_any_spelling() {
        for (target, expected) in [
            ("/x?access_token=s&a=b", "/x?access_token=REDACTED&a=b"),
            ("/x?%74oken=s", "/x?%74oken=REDACTED"),
            ("/x?command=token", "/x?command=token"),
            ("/x", "/x"),
        ] {
            assert_eq!(request_uri(&target.parse().unwrap()), expected);
        }
    }

    #[test]
    fn long_texts_of_unauthenticated_requests_are_truncated() {
        let uri: Uri = format!("/{}", "x".repeat(10_000)).parse().unwrap();
        assert_eq!(strangers_uri(&uri).len(), MAX_STRANGERS_URI + "...TRUNCATED".len());
        assert_eq!(request_uri(&uri).len(), 10_001);
        let headers = [(header::USER_AGENT, "é".repeat(2000).parse().unwrap())].into_iter().collect();
        assert_eq!(user_agent(&headers).chars().count(), MAX_USER_AGENT + "...TRUNCATED".len());
    }
}
