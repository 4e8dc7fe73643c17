//! Builds the `Impersonate-*` headers with the identity that a member sees (apiserver:
//! `filters/impersonation`). No other code builds them.
//!
//! - `system:authenticated` and `system:unauthenticated` are left out, because the member adds them.
//! - A service account's groups are left out when they are the derived ones, and its host uid always: the
//!   host's account `n` in namespace `ns` acts as the member's own account `n` in namespace `ns`. An account
//!   without groups (`--as` with `--as-group=system:authenticated`) is refused, because the member would
//!   derive them. `spec.impersonation.serviceAccounts` of the member may give the accounts other
//!   names, or refuse them.
//! - The admin groups are never sent. `kubectl-mc:host-admins` replaces them, so that the member's RBAC
//!   decides.
//! - Identities of the host's own components (`access::builtin`) are refused, because on the member
//!   these names belong to other programs.

use http::{HeaderMap, HeaderName, HeaderValue};
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::access::builtin::{is_privileged_group, is_privileged_user};
use kubectl_mc_api::access::sent;
use kubectl_mc_api::member_cluster::{Forwarded, Forwarding};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{EXTRA, GROUP, UID, USER, is_impersonation};
use crate::identity::Identity;
use crate::identity::authorization::Attributes;

/// The rules that flags may change.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Groups that are never sent, including the built-in ones.
    /// [`HOST_ADMINS`](kubectl_mc_api::names::HOST_ADMINS) is sent in their place.
    pub admin_groups: Vec<String>,
    /// Extra keys that are never sent; a `*` at either end matches any text there.
    pub omitted_extra: Vec<String>,
    /// Whether control-plane identities of the host may act on members.
    pub allow_privileged_identity: bool,
}

impl Default for Rules {
    fn default() -> Self {
        let list = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        Self {
            admin_groups: sent::admin_groups([]),
            omitted_extra: list(DEFAULT_OMITTED_EXTRA),
            allow_privileged_identity: false,
        }
    }
}

/// The headers with one identity, for a member.
#[derive(Debug)]
pub struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    /// The headers for `identity` on a member, with the parts that are forwarded to it.
    pub fn new(rules: &Rules, identity: &Identity, forwarded: Forwarded) -> Result<Self, Error> {
        rules.refuse_privileged(identity)?;
        let Identity { user, groups, .. } = identity;
        let sent = sent::identity(&rules.admin_groups, forwarded.service_accounts, user, groups)?;
        let mut headers = vec![(HeaderName::from_static(USER), value("user name", &sent.user)?)];
        for group in &sent.groups {
            headers.push((HeaderName::from_static(GROUP), value("group", group)?));
        }
        if let Some(uid) = &identity.uid
            && forwarded.uid == Forwarding::Forward
            && !sent.is_members_account()
        {
            headers.push((HeaderName::from_static(UID), value("uid", uid)?));
        }
        if forwarded.extra == Forwarding::Forward {
            for (key, values) in &identity.extra {
                if rules.omits(key) || values.is_empty() {
                    continue;
                }
                let name = extra_name(EXTRA, key)?;
                for text in values {
                    headers.push((name.clone(), value("extra value", text)?));
                }
            }
        }
        Ok(Self(headers))
    }

    /// The rights that the sidecar's credential needs on the member to send this identity.
    pub fn rights(&self) -> Vec<Attributes> {
        super::rights(&self.0.iter().cloned().collect())
    }

    /// Adds the identity to the headers of a request, which must not have any impersonation header yet.
    pub fn apply(&self, headers: &mut HeaderMap) -> Result<(), Error> {
        if headers.keys().any(is_impersonation) {
            return Err(Error::Present);
        }
        for (name, value) in &self.0 {
            headers.append(name.clone(), value.clone());
        }
        Ok(())
    }
}

impl Error {
    /// The same error, with the name of the member whose settings caused it.
    pub fn on(self, cluster: &ClusterName) -> Self {
        match self {
            Self::NotSent(sent::NotSent::Account(name)) => {
                Self::AccountsOmitted { cluster: cluster.clone(), name }
            }
            other => other,
        }
    }
}

impl Rules {
    fn refuse_privileged(&self, identity: &Identity) -> Result<(), Error> {
        if self.allow_privileged_identity {
            return Ok(());
        }
        if is_privileged_user(&identity.user) {
            return Err(Error::Privileged(identity.user.clone()));
        }
        let is_refused = |group: &&String| !self.admin_groups.contains(group) && is_privileged_group(group);
        match identity.groups.iter().find(is_refused) {
            Some(group) => Err(Error::Privileged(group.clone())),
            None => Ok(()),
        }
    }

    fn omits(&self, key: &str) -> bool {
        self.omitted_extra.iter().any(|pattern| {
            let start = pattern.strip_prefix('*');
            let end = start.unwrap_or(pattern).strip_suffix('*');
            match (start, end) {
                (None, None) => key == pattern,
                (None, Some(prefix)) => key.starts_with(prefix),
                (Some(suffix), None) => key.ends_with(suffix),
                (Some(_), Some(part)) => key.contains(part),
            }
        })
    }
}

/// Refuses values that would not reach the member unchanged. HTTP strips white space at either end, so the
/// member would see another identity.
pub(in crate::identity) fn value(what: &'static str, text: &str) -> Result<HeaderValue, Error> {
    let blank = |b: &u8| matches!(b, b' ' | b'\t');
    let bytes = text.as_bytes();
    if bytes.is_empty() || bytes.first().is_some_and(blank) || bytes.last().is_some_and(blank) {
        return Err(Error::NotCarried(what, text.to_owned()));
    }
    HeaderValue::from_bytes(bytes).map_err(|_| Error::NotCarried(what, text.to_owned()))
}

/// Escapes a key as client-go does: every byte that is not allowed in header names, and `%` itself.
pub(in crate::identity) fn extra_name(prefix: &str, key: &str) -> Result<HeaderName, Error> {
    if key.is_empty() {
        return Err(Error::NotCarried("extra key", String::new()));
    }
    let name = format!("{prefix}{}", utf8_percent_encode(key, NOT_IN_NAMES));
    name.parse().map_err(|_| Error::NotCarried("extra key", key.to_owned()))
}

/// All ASCII characters except those of a token (RFC 9110, 5.6.2), without `%`.
const NOT_IN_NAMES: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// The default of `--omit-extra`: extra about a node, a pod or a credential of the host, which has no meaning
/// elsewhere.
pub const DEFAULT_OMITTED_EXTRA: &[&str] =
    &["authentication.kubernetes.io/pod-*", "authentication.kubernetes.io/node-*", "*user-assertion*"];

/// Why an identity cannot be sent to a member.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{0:?} is an identity of the host's own control plane and may not act on members \
         (the sidecar's flag --allow-privileged-identity allows it)"
    )]
    Privileged(String),
    #[error(transparent)]
    NotSent(#[from] sent::NotSent),
    #[error(
        "{name:?} belongs to service accounts of the host, and MemberCluster {cluster} has \
         spec.impersonation.serviceAccounts: Omit"
    )]
    AccountsOmitted { cluster: ClusterName, name: String },
    #[error("the {0} {1:?} cannot be written into a header")]
    NotCarried(&'static str, String),
    #[error("the request already has impersonation headers")]
    Present,
}

#[cfg(test)]
mod tests;
