//! Parses inputs as lines: a first line, whose meaning depends on the target, and header lines.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The first line and the rest.
pub(crate) fn first(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    (&input[..end], input.get(end + 1..).unwrap_or_default())
}

/// Parses lines `name: value`. Lines that are not valid headers are left out, as in a server.
pub(crate) fn headers(input: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in input.split(|byte| *byte == b'\n').take(MOST) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let value = line[colon + 1..].trim_ascii();
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(value))
        {
            headers.append(name, value);
        }
    }
    headers
}

/// The comma-separated tokens of all lines of a header, in lower case, whatever bytes they are.
pub(crate) fn tokens(headers: &HeaderMap, name: &str) -> Vec<Vec<u8>> {
    let lines = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    lines
        .flat_map(|line| line.split(|byte| *byte == b','))
        .map(|token| token.trim_ascii().to_ascii_lowercase())
        .filter(|token| !token.is_empty())
        .collect()
}

/// More than any server accepts.
const MOST: usize = 5000;
