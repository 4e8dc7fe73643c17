//! Checks the paths that are forwarded to a cluster. A cluster behind a host is a part of the
//! host's own path space, so a path is refused if any server in between could read it as one
//! outside this part.

use percent_encoding::percent_decode_str;

use super::refusal::Refusal;

/// The path, if no interpretation of it leaves the cluster: not after any number of decodings, and
/// not with `\` for `/`.
pub(super) fn checked(path: &str) -> Result<&str, Refusal> {
    // As in `//host/`, URL parsers would read it as the name of another server.
    if !path.starts_with('/') || path.starts_with("//") {
        return Err(Refusal::Path("begins with an empty segment"));
    }
    if !path.is_ascii() {
        return Err(Refusal::Path("has characters that must be escaped"));
    }
    if !has_whole_escapes(path.as_bytes()) {
        return Err(Refusal::Path("has a malformed escape"));
    }
    let mut read = path.as_bytes().to_vec();
    loop {
        if read.iter().any(|byte| byte.is_ascii_control() || *byte == b'\\') {
            return Err(Refusal::Path("has a control character or a backslash"));
        }
        if read.split(|byte| *byte == b'/').any(is_dots) {
            return Err(Refusal::Path("has a dot segment"));
        }
        let decoded: Vec<u8> = percent_encoding::percent_decode(&read).collect();
        // Each decoding either makes the text shorter or is the last one.
        if decoded == read {
            return Ok(path);
        }
        read = decoded;
    }
}

/// Whether a segment is `.` or `..`, also with path parameters (`..;x`), which some servers drop.
fn is_dots(segment: &[u8]) -> bool {
    let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
    matches!(name, b"." | b"..")
}

/// Whether each `%` begins an escape.
fn has_whole_escapes(text: &[u8]) -> bool {
    let mut rests = text.split(|byte| *byte == b'%').skip(1);
    rests.all(|rest| rest.get(..2).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)))
}

/// The first segment of a path, and the rest, which begins with `/`.
pub(super) fn split_first(path: &str) -> (&str, &str) {
    let inner = path.strip_prefix('/').unwrap_or(path);
    match inner.find('/') {
        Some(at) => inner.split_at(at),
        None => (inner, "/"),
    }
}

/// A segment, as text for a message.
pub(super) fn shown(segment: &str) -> String {
    percent_decode_str(segment).decode_utf8_lossy().chars().take(MOST_SHOWN).collect()
}

/// The longest name of a cluster.
const MOST_SHOWN: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_pass_unchanged() {
        for path in [
            "/",
            "/api/v1/namespaces/shop/pods/web:8080/proxy/a%2Fb/?",
            "/api/v1/namespaces/shop/services/https:web:443/proxy//x/..hidden/...",
            "/apis/apps/v1/",
            "/api/v1/%E2%82%AC/100%25",
        ] {
            assert_eq!(checked(path), Ok(path));
        }
    }

    #[test]
    fn path_that_any_reader_could_leave_is_refused() {
        for path in [
            "",
            "*",
            "api",
            "//m2/api",
            "/..",
            "/api/./v1",
            "/api/../../m2/proxy",
            "/%2e%2e/m2",
            "/%2E./m2",
            "/x/..%2f..%2Fm2",
            "/x%2f..",
            "/%252e%252e/m2",
            "/%25252e./m2",
            "/..;a=b/m2",
            "/..%3b/m2",
            "/..\\m2",
            "/%5c..%5cm2",
            "/a%00",
            "/a%0d%0aHost:%20x",
            "/a%zz",
            "/a%2",
            "/€",
        ] {
            assert!(matches!(checked(path), Err(Refusal::Path(_))), "{path}");
        }
    }

    #[test]
    fn first_segment_ends_at_a_slash() {
        assert_eq!(split_first("/m1/api"), ("m1", "/api"));
        assert_eq!(split_first("/m1"), ("m1", "/"));
        assert_eq!(split_first("/"), ("", "/"));
        assert_eq!(split_first("//m1/api"), ("", "/m1/api"));
        assert_eq!(split_first("/m1//api"), ("m1", "//api"));
        assert_eq!(split_first("/m%31/api"), ("m%31", "/api"));
    }
}
