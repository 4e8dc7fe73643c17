//! Handles impersonation by callers and of callers. [`requested`] reads the impersonation that a caller
//! requests. The host authorizes each part of it, and it is applied before the request itself is authorized.
//! [`member::Headers`] is the only place that builds the identity that a member sees.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::identity::authentication::{Authenticated, By};
use crate::identity::authorization::{self, Asker, Attributes, Authorizer, EffectiveUser, Right};
use crate::identity::request_header::extra_key;
use crate::identity::{self, Identity};
use crate::limits::in_flight::Caller;

pub mod member;

/// The identity that a caller requests to impersonate.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Requested(Identity);

/// Removes every `Impersonate-*` header from a request and returns the requested identity.
///
/// Requests through the host must have none. The host applies and removes the headers that it knows, so a
/// remaining one is unknown there.
pub fn requested(caller: &Authenticated, headers: &mut HeaderMap) -> Result<Option<Requested>, Error> {
    let names: Vec<HeaderName> = headers.keys().filter(|name| is_impersonation(name)).cloned().collect();
    if names.is_empty() {
        return Ok(None);
    }
    let (asked, unknown) = read(headers, &names)?;
    for name in &names {
        while headers.remove(name).is_some() {}
    }
    if caller.by == By::RequestHeader {
        return Err(Error::LeftByHost(names[0].clone()));
    }
    if let Some(name) = unknown {
        return Err(Error::Unknown(name));
    }
    if asked.user.is_empty() {
        return Err(Error::WithoutUser);
    }
    Ok(Some(Requested(asked)))
}

/// The rights that the sender of these headers needs on the receiving server.
pub(crate) fn rights(headers: &HeaderMap) -> Vec<Attributes> {
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    read(headers, &names).map(|(identity, _)| Requested(identity).items()).unwrap_or_default()
}

/// The identity that these headers request, and an unknown header, if any.
fn read(headers: &HeaderMap, names: &[HeaderName]) -> Result<(Identity, Option<HeaderName>), Error> {
    let mut asked = Identity::default();
    let mut unknown = None;
    for name in names {
        let values: Vec<_> = headers.get_all(name).iter().map(text).collect::<Result<_, _>>()?;
        match name.as_str() {
            USER => asked.user = values.into_iter().next().unwrap_or_default(),
            UID => asked.uid = values.into_iter().next().filter(|uid| !uid.is_empty()),
            GROUP => asked.groups = values,
            other => match other.strip_prefix(EXTRA) {
                Some(key) if !key.is_empty() => {
                    asked.extra.entry(extra_key(key)).or_default().extend(values);
                }
                _ => unknown = Some(name.clone()),
            },
        }
    }
    Ok((asked, unknown))
}

impl Requested {
    /// Checks the right to each item on the host (apiserver: `filters/impersonation`) and returns
    /// the effective user of the request.
    pub async fn check(
        self,
        caller: &Arc<Identity>,
        holder: Caller,
        authorizer: &Authorizer,
    ) -> Result<EffectiveUser, Error> {
        let mut rights = Vec::new();
        for attributes in self.items() {
            authorizer.check(caller, &attributes, Asker::Caller(holder)).await?;
            rights.push(Right { holder: caller.clone(), attributes });
        }
        let Self(mut asked) = self;
        if asked.groups.is_empty() {
            let derived =
                asked.service_account().map(|(namespace, _)| identity::service_account_groups(namespace));
            asked.groups.extend(derived.into_iter().flatten());
            if asked.user == identity::ANONYMOUS {
                asked.groups.push(identity::UNAUTHENTICATED.to_owned());
            }
        }
        Ok(EffectiveUser::impersonated(Arc::new(asked.authenticated()), rights))
    }

    /// The parts of the identity. Each needs its own right.
    fn items(&self) -> Vec<Attributes> {
        let Self(asked) = self;
        let user = match asked.service_account() {
            Some((namespace, name)) => Attributes::impersonate("", "serviceaccounts", "", namespace, name),
            None => Attributes::impersonate("", "users", "", "", &asked.user),
        };
        let mut items = vec![user];
        items.extend(asked.groups.iter().map(|group| Attributes::impersonate("", "groups", "", "", group)));
        items
            .extend(asked.uid.iter().map(|uid| Attributes::impersonate(AUTHENTICATION, "uids", "", "", uid)));
        for (key, values) in &asked.extra {
            let item = |value: &String| Attributes::impersonate(AUTHENTICATION, "userextras", key, "", value);
            items.extend(values.iter().map(item));
        }
        items
    }
}

/// Whether a header belongs to impersonation. `impersonate_user` does too, because some servers map `_` to
/// `-`.
pub fn is_impersonation(name: &HeaderName) -> bool {
    name.as_str().starts_with("impersonate")
}

fn text(value: &HeaderValue) -> Result<String, Error> {
    std::str::from_utf8(value.as_bytes()).map(str::to_owned).map_err(|_| Error::NotUtf8)
}

/// Headers by their lower-case names.
pub(crate) const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Why an identity cannot be impersonated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the host did not remove the header {0} from the request")]
    LeftByHost(HeaderName),
    #[error("unknown impersonation header {0}")]
    Unknown(HeaderName),
    #[error("groups, uid or extra were requested without a user to impersonate")]
    WithoutUser,
    #[error("an impersonation header is not UTF-8")]
    NotUtf8,
    #[error(transparent)]
    Denied(#[from] authorization::Error),
    #[error(transparent)]
    Member(#[from] member::Error),
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::mpsc::channel;

    use serde_json::json;

    use super::*;
    use crate::host::fake::host;

    fn ask(by: By, lines: &[(&'static str, &'static str)]) -> (Result<Option<Requested>, Error>, HeaderMap) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let caller = Authenticated { identity: Arc::new(Identity::default()), by };
        (requested(&caller, &mut headers), headers)
    }

    #[test]
    fn impersonation_headers_are_parsed_and_removed() {
        let (asked, headers) = ask(
            By::Token,
            &[
                ("impersonate-user", "bob"),
                ("impersonate-group", "a"),
                ("impersonate-group", "b"),
                ("impersonate-uid", "7"),
                ("impersonate-extra-x%2fy", "1"),
                ("accept", "*/*"),
            ],
        );
        let Requested(asked) = asked.unwrap().unwrap();
        assert_eq!((asked.user.as_str(), asked.uid.as_deref()), ("bob", Some("7")));
        assert_eq!(asked.groups, ["a", "b"]);
        assert_eq!(asked.extra, BTreeMap::from([("x/y".to_owned(), vec!["1".to_owned()])]));
        assert_eq!(headers.len(), 1);
    }

    #[test]
    fn fault_12_impersonation_header_left_by_the_host_is_an_error() {
        for name in ["impersonate-user", "impersonate-x", "impersonate_user"] {
            let (asked, _) = ask(By::RequestHeader, &[(name, "")]);
            assert!(matches!(asked, Err(Error::LeftByHost(_))), "{name}");
        }
    }

    #[test]
    fn fault_12_unknown_impersonation_header_is_an_error() {
        for name in ["impersonate-x", "impersonate_user", "impersonate", "impersonate-extra-"] {
            let (asked, _) = ask(By::Token, &[("impersonate-user", "bob"), (name, "x")]);
            assert!(matches!(asked, Err(Error::Unknown(_))), "{name}");
        }
    }

    #[test]
    fn differently_escaped_extra_keys_are_merged() {
        let lines =
            [("impersonate-user", "bob"), ("impersonate-extra-a", "x"), ("impersonate-extra-%41", "y")];
        let (asked, _) = ask(By::Token, &lines);
        assert_eq!(asked.unwrap().unwrap().0.extra["a"], ["x", "y"]);
    }

    #[test]
    fn fault_12_13_impersonation_without_a_user_is_an_error() {
        let (asked, _) = ask(By::Token, &[("impersonate-group", "system:masters")]);
        assert!(matches!(asked, Err(Error::WithoutUser)));
        let (asked, _) = ask(By::Token, &[("impersonate-user", "")]);
        assert!(matches!(asked, Err(Error::WithoutUser)));
    }

    /// The rights that are checked when an identity is requested, and the effective user. The host
    /// denies only one name.
    async fn check(requested: Identity, denied: &'static str) -> (Vec<String>, Result<EffectiveUser, Error>) {
        let (sender, asked) = channel();
        let (client, _) = host(move |review| {
            let attributes = &review["spec"]["resourceAttributes"];
            let text = |key: &str| attributes[key].as_str().unwrap_or_default().to_owned();
            let words = ["verb", "group", "resource", "subresource", "namespace", "name"].map(text);
            assert_eq!(review["spec"]["user"], "jane", "the right is the caller's");
            sender.send(words.join("/")).unwrap();
            let status = json!({"allowed": attributes["name"] != denied});
            (201, json!({"kind": "SubjectAccessReview", "metadata": {}, "spec": {}, "status": status}))
        });
        let jane = Arc::new(Identity { user: "jane".to_owned(), ..Identity::default() });
        let checked = Requested(requested).check(&jane, Caller::of_hash(1), &Authorizer::new(client)).await;
        (asked.try_iter().collect(), checked)
    }

    #[tokio::test]
    async fn fault_12_each_impersonated_item_needs_its_own_right() {
        let requested = Identity {
            user: "bob".to_owned(),
            uid: Some("7".to_owned()),
            groups: vec!["dev".to_owned(), "ops".to_owned()],
            extra: BTreeMap::from([("scopes".to_owned(), vec!["x".to_owned(), "y".to_owned()])]),
        };
        let (asked, checked) = check(requested.clone(), "").await;
        let items = [
            "impersonate//users///bob",
            "impersonate//groups///dev",
            "impersonate//groups///ops",
            "impersonate/authentication.k8s.io/uids///7",
            "impersonate/authentication.k8s.io/userextras/scopes//x",
            "impersonate/authentication.k8s.io/userextras/scopes//y",
        ];
        assert_eq!(asked, items);
        assert_eq!(checked.unwrap().identity().user, "bob");
        for denied in ["bob", "dev", "ops", "7", "x", "y"] {
            let (_, checked) = check(requested.clone(), denied).await;
            assert!(matches!(checked, Err(Error::Denied(authorization::Error::Denied(_)))), "{denied}");
        }
        let account = Identity { user: "system:serviceaccount:ns:n".to_owned(), ..Identity::default() };
        assert_eq!(check(account, "").await.0, ["impersonate//serviceaccounts//ns/n"]);
    }

    #[tokio::test]
    async fn impersonated_users_get_the_groups_that_upstream_adds() {
        const ACCOUNT: &str = "system:serviceaccount:ns:n";
        for (user, groups, expected) in [
            ("bob", &[][..], &["system:authenticated"][..]),
            ("bob", &["dev"], &["dev", "system:authenticated"]),
            ("system:anonymous", &[], &["system:unauthenticated"]),
            (ACCOUNT, &[], &["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]),
            (ACCOUNT, &["dev"], &["dev", "system:authenticated"]),
        ] {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            let requested = Identity { user: user.to_owned(), groups, ..Identity::default() };
            let (_, checked) = check(requested, "").await;
            assert_eq!(checked.unwrap().identity().groups, expected, "{user}");
        }
    }
}
