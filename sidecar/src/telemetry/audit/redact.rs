//! Redacts and truncates the texts of a request for its events, so that these contain no credential and have
//! a bounded size.

use std::borrow::Cow;

use http::{HeaderMap, Uri, header};
use percent_encoding::percent_decode_str;

use crate::head::query::Query;

/// How much of a query events show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Everything but credentials.
    Parameters,
    /// Of an exec, everything but the command.
    NoCommand,
    /// Nothing, because the request was not understood and may be an exec.
    Nothing,
}

/// The target of a request, with credentials in its parameters redacted.
pub(super) fn request_uri(uri: &Uri, shown: Shown) -> String {
    let query = match (uri.query().filter(|query| !query.is_empty()), shown) {
        (Some(_), Shown::Nothing) => Cow::Borrowed(REDACTED),
        (Some(query), Shown::NoCommand) => without_command(query).into(),
        _ => return with_parameters(uri),
    };
    format!("{}?{query}", uri.path())
}

/// The query of an exec with the parameters that hold no argument, exactly as they came. One marker replaces all
/// arguments: their number can tell what they are. Everything else is redacted with its name, because an argument that
/// its client did not escape can be anywhere.
fn without_command(query: &str) -> String {
    let is_word = |value: &str| {
        value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
    };
    let is_kept = |pair: &&str| {
        pair.split_once('=').is_some_and(|(name, value)| EXEC_OPTIONS.contains(&name) && is_word(value))
    };
    let is_command = |pair: &&str| Query::new(Some(pair)).first("command").is_some();
    let (mut shown, mut has_command, mut has_more) = (Vec::new(), false, false);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        if is_kept(&pair) {
            shown.push(pair);
        } else if is_command(&pair) {
            has_command = true;
        } else {
            has_more = true;
        }
    }
    shown.extend(has_command.then_some(REDACTED_COMMAND));
    shown.extend(has_more.then_some(REDACTED));
    shown.join("&")
}

/// The fields of `PodExecOptions` (core/v1) without `command`.
const EXEC_OPTIONS: &[&str] = &["container", "stdin", "stdout", "stderr", "tty"];
const REDACTED: &str = "REDACTED";
const REDACTED_COMMAND: &str = "command=REDACTED";

fn with_parameters(uri: &Uri) -> String {
    let names =
        || uri.query().unwrap_or_default().split('&').filter_map(|parameter| parameter.split_once('='));
    let is_changed = |(name, value): (&str, &str)| is_credential(name) || is_long_version(name, value);
    let Some(query) = uri.query().filter(|_| names().any(is_changed)) else {
        return uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string);
    };
    let parameters = query.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, _)) if is_credential(name) => format!("{name}=REDACTED"),
        Some((name, value)) if is_long_version(name, value) => {
            format!("{name}={}", truncated(value, SHOWN_VERSION))
        }
        _ => parameter.to_owned(),
    });
    format!("{}?{}", uri.path(), parameters.collect::<Vec<_>>().join("&"))
}

/// The target of a request without a login, also truncated.
pub(super) fn strangers_uri(uri: &Uri, shown: Shown) -> String {
    truncated(&request_uri(uri, shown), MAX_STRANGERS_URI)
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

/// The version of a list of the fleet view has some bytes for each member.
fn is_long_version(name: &str, value: &str) -> bool {
    name == "resourceVersion" && value.len() > 4 * SHOWN_VERSION
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

/// Characters of a long resource version.
const SHOWN_VERSION: usize = 16;
/// In characters.
const MAX_USER_AGENT: usize = 1024;
const MAX_STRANGERS_URI: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_resource_version_is_shortened() {
        let uri: Uri = format!("/api?watch=1&resourceVersion=v1.{}&a=b", "A".repeat(6000)).parse().unwrap();
        let shown = request_uri(&uri, Shown::Parameters);
        assert_eq!(shown, format!("/api?watch=1&resourceVersion=v1.{}...TRUNCATED&a=b", "A".repeat(13)));
        let uri: Uri = "/api?resourceVersion=123456789".parse().unwrap();
        assert_eq!(request_uri(&uri, Shown::Parameters), "/api?resourceVersion=123456789");
    }

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
            assert_eq!(request_uri(&target.parse().unwrap(), Shown::Parameters), expected);
        }
    }

    #[test]
    fn fault_83_exec_command_is_redacted_in_any_spelling() {
        for (query, expected) in [
            ("command=sh&command=-c&command=s3cret", "command=REDACTED"),
            (
                "command=s3cret&container=web&stdin=true&stdout=true&stderr=false&tty=true",
                "container=web&stdin=true&stdout=true&stderr=false&tty=true&command=REDACTED",
            ),
            ("comman%64=s3cret", "command=REDACTED"),
            ("%63%6f%6d%6d%61%6e%64=s3cret&tty=1", "tty=1&command=REDACTED"),
            ("command=a+s3cret", "command=REDACTED"),
            ("command", "command=REDACTED"),
            ("command=", "command=REDACTED"),
            ("command=a=s3cret", "command=REDACTED"),
            // Not a parameter of an exec, or not of a server's making.
            ("Command=s3cret", "REDACTED"),
            ("command+=s3cret", "REDACTED"),
            ("comman%zz=s3cret", "REDACTED"),
            ("command=a&s3cret&s3cret=1", "command=REDACTED&REDACTED"),
            ("container=web;command=s3cret", "REDACTED"),
            ("container=s3%20cret&stdin", "REDACTED"),
            ("containe%72=web&&access_token=s3cret", "REDACTED"),
        ] {
            let uri = format!("/exec?{query}").parse().unwrap();
            assert_eq!(request_uri(&uri, Shown::NoCommand), format!("/exec?{expected}"), "{query}");
        }
        for target in ["/exec", "/exec?"] {
            assert_eq!(request_uri(&target.parse().unwrap(), Shown::NoCommand), target);
            assert_eq!(request_uri(&target.parse().unwrap(), Shown::Nothing), target);
        }
        let unparsed = "/x?command=s3cret&tty=1".parse().unwrap();
        assert_eq!(request_uri(&unparsed, Shown::Nothing), "/x?REDACTED");
    }

    #[test]
    fn long_texts_of_unauthenticated_requests_are_truncated() {
        let uri: Uri = format!("/{}", "x".repeat(10_000)).parse().unwrap();
        assert_eq!(strangers_uri(&uri, Shown::Parameters).len(), MAX_STRANGERS_URI + "...TRUNCATED".len());
        assert_eq!(request_uri(&uri, Shown::Parameters).len(), 10_001);
        let headers = [(header::USER_AGENT, "é".repeat(2000).parse().unwrap())].into_iter().collect();
        assert_eq!(user_agent(&headers).chars().count(), MAX_USER_AGENT + "...TRUNCATED".len());
    }
}
