//! Writes the identity for an API server behind the sidecar as `X-Remote-*` headers (apiserver:
//! `authenticationrequest/headerrequest`). Groups, uid and extra are sent unchanged, because the server is
//! part of the host.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::identity::Identity;
use crate::identity::impersonation::member::{self, extra_name, value};

/// The header with the name of the user.
pub const USER: &str = "x-remote-user";
const UID: &str = "x-remote-uid";
const GROUP: &str = "x-remote-group";
const EXTRA: &str = "x-remote-extra-";

/// The headers with one identity, for a server behind the sidecar.
#[derive(Debug)]
pub struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    pub fn new(identity: &Identity) -> Result<Self, member::Error> {
        let mut headers = vec![(HeaderName::from_static(USER), value("user name", &identity.user)?)];
        for group in &identity.groups {
            headers.push((HeaderName::from_static(GROUP), value("group", group)?));
        }
        if let Some(uid) = &identity.uid {
            headers.push((HeaderName::from_static(UID), value("uid", uid)?));
        }
        for (key, values) in &identity.extra {
            let name = extra_name(EXTRA, key)?;
            for text in values {
                headers.push((name.clone(), value("extra value", text)?));
            }
        }
        Ok(Self(headers))
    }

    /// Adds the identity to the headers of a request, which must not have any identity header yet.
    pub fn apply(&self, headers: &mut HeaderMap) -> Result<(), member::Error> {
        if headers.keys().any(|name| name.as_str().starts_with("x-remote-")) {
            return Err(member::Error::Present);
        }
        for (name, value) in &self.0 {
            headers.append(name.clone(), value.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_carry_the_whole_identity() {
        let identity = Identity {
            user: "jane".to_owned(),
            uid: Some("7".to_owned()),
            groups: vec!["system:masters".to_owned(), "ops".to_owned()],
            extra: [("example.com/team".to_owned(), vec!["a".to_owned(), "b".to_owned()])].into(),
        };
        let mut headers = HeaderMap::new();
        Headers::new(&identity).unwrap().apply(&mut headers).unwrap();
        let values = |name: &str| {
            headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(values(USER), ["jane"]);
        assert_eq!(values(UID), ["7"]);
        assert_eq!(values(GROUP), ["system:masters", "ops"]);
        assert_eq!(values("x-remote-extra-example.com%2Fteam"), ["a", "b"]);
        assert!(Headers::new(&identity).unwrap().apply(&mut headers).is_err(), "as two");
    }

    #[test]
    fn identity_with_an_invalid_header_value_is_refused() {
        for user in ["", " jane", "ja\nne"] {
            let identity = Identity { user: user.to_owned(), ..Identity::default() };
            assert!(Headers::new(&identity).is_err(), "{user:?}");
        }
    }
}
