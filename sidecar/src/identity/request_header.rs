//! Reads the identity from the headers of the host's front proxy (apiserver:
//! `authentication/request/headerrequest`). Callers of this module must have verified that the peer is the
//! front proxy; headers of other peers are never read.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::head::unescape::unescape;
use crate::identity::Identity;

/// The names of the headers in which the front proxy sends identities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderNames {
    pub user: Vec<HeaderName>,
    /// Empty unless the host names them, because an older host does not remove such headers of clients.
    pub uid: Vec<HeaderName>,
    pub group: Vec<HeaderName>,
    /// Prefixes in lower case.
    pub extra: Vec<String>,
}

impl HeaderNames {
    /// Whether a header can carry identity from the front proxy.
    pub fn owns(&self, name: &HeaderName) -> bool {
        [&self.user, &self.uid, &self.group].iter().any(|names| names.contains(name))
            || self.extra.iter().any(|prefix| name.as_str().starts_with(prefix.as_str()))
    }
}

/// Reads the identity from a front proxy's request; `None` if it names no user.
pub fn identity(names: &HeaderNames, headers: &HeaderMap) -> Result<Option<Identity>, NotUtf8> {
    let Some(user) = first(&names.user, headers)? else { return Ok(None) };
    let mut identity = Identity { user, uid: first(&names.uid, headers)?, ..Identity::default() };
    for name in &names.group {
        for value in headers.get_all(name).iter().filter(|value| !value.is_empty()) {
            identity.groups.push(text(value)?.to_owned());
        }
    }
    for (name, value) in headers {
        let key = names.extra.iter().find_map(|prefix| name.as_str().strip_prefix(prefix.as_str()));
        if let Some(key) = key {
            identity.extra.entry(extra_key(key)).or_default().push(text(value)?.to_owned());
        }
    }
    Ok(Some(identity))
}

/// The unescaped key of an extra header; a key with an invalid escape stays escaped. Escaped
/// letters are also converted to lower case: a member reads the key from a header name in lower
/// case, so decisions here must use the same key.
pub fn extra_key(escaped: &str) -> String {
    let lower = escaped.to_lowercase();
    match unescape(&lower).as_deref().map(std::str::from_utf8) {
        Some(Ok(key)) => key.to_ascii_lowercase(),
        None | Some(Err(_)) => lower,
    }
}

/// The first value of the first header whose first value is not empty (Go: `Header.Get`).
fn first(names: &[HeaderName], headers: &HeaderMap) -> Result<Option<String>, NotUtf8> {
    let value = names.iter().find_map(|name| headers.get(name).filter(|value| !value.is_empty()));
    value.map(|value| text(value).map(str::to_owned)).transpose()
}

/// The value of an identity header: raw UTF-8 bytes, as Go sends them.
fn text(value: &HeaderValue) -> Result<&str, NotUtf8> {
    std::str::from_utf8(value.as_bytes()).map_err(|_| NotUtf8)
}

/// An identity that cannot be read.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("an identity header is not UTF-8")]
pub struct NotUtf8;

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> HeaderNames {
        let name = |name| vec![HeaderName::from_static(name)];
        HeaderNames {
            user: name("x-remote-user"),
            uid: name("x-remote-uid"),
            group: name("x-remote-group"),
            extra: vec!["x-remote-extra-".to_owned()],
        }
    }

    fn headers(lines: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    #[test]
    fn every_part_of_an_identity_is_read() {
        let headers = headers(&[
            ("x-remote-user", "jané".as_bytes()),
            ("x-remote-uid", b"42"),
            ("x-remote-group", b"dev"),
            ("x-remote-group", b"ops, all"),
            ("x-remote-extra-scopes.io%2fa%20b%25", b"x"),
            ("x-remote-extra-scopes.io%2fa%20b%25", b"y"),
        ]);
        let identity = identity(&names(), &headers).unwrap().unwrap();
        assert_eq!(identity.user, "jané");
        assert_eq!(identity.uid.as_deref(), Some("42"));
        assert_eq!(identity.groups, ["dev", "ops, all"]);
        assert_eq!(identity.extra["scopes.io/a b%"], ["x", "y"]);
    }

    #[test]
    fn fault_05_18_headers_without_a_user_are_no_identity() {
        assert_eq!(identity(&names(), &headers(&[("x-remote-group", b"dev")])).unwrap(), None);
        assert_eq!(identity(&names(), &headers(&[("x-remote-user", b"")])).unwrap(), None);
    }

    #[test]
    fn fault_06_only_the_first_value_of_a_header_counts() {
        let names = HeaderNames {
            user: ["x-remote-user", "x-forwarded-user"].map(HeaderName::from_static).to_vec(),
            ..names()
        };
        for (lines, user) in [
            (&[("x-remote-user", "ulrike"), ("x-remote-user", "theo")][..], Some("ulrike")),
            (&[("x-remote-user", ""), ("x-remote-user", "theo")], None),
            (&[("x-remote-user", ""), ("x-remote-user", "theo"), ("x-forwarded-user", "ida")], Some("ida")),
            (&[("x-forwarded-user", "ida"), ("x-remote-user", "theo")], Some("theo")),
            (&[("x-remote-user", "a, b")], Some("a, b")),
        ] {
            let lines: Vec<_> = lines.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
            let identity = identity(&names, &headers(&lines)).unwrap();
            assert_eq!(identity.map(|identity| identity.user).as_deref(), user, "{lines:?}");
        }
    }

    #[test]
    fn empty_group_header_is_ignored() {
        let headers =
            headers(&[("x-remote-user", b"jane"), ("x-remote-group", b""), ("x-remote-group", b"dev")]);
        assert_eq!(identity(&names(), &headers).unwrap().unwrap().groups, ["dev"]);
    }

    #[test]
    fn fault_11_uid_counts_only_if_the_host_names_its_header() {
        let names = HeaderNames { uid: Vec::new(), ..names() };
        let headers = headers(&[("x-remote-user", b"jane"), ("x-remote-uid", b"0")]);
        assert_eq!(identity(&names, &headers).unwrap().unwrap().uid, None);
    }

    #[test]
    fn fault_10_user_that_is_not_utf8_is_an_error() {
        assert!(identity(&names(), &headers(&[("x-remote-user", b"jan\xff")])).is_err());
    }

    #[test]
    fn fault_09_extra_key_with_an_invalid_escape_stays_escaped() {
        for (escaped, key) in
            [("a%2fb", "a/b"), ("a%zz", "a%zz"), ("a%2", "a%2"), ("A", "a"), ("a%ff", "a%ff"), ("%41", "a")]
        {
            assert_eq!(extra_key(escaped), key);
        }
    }
}
