//! Formats the refusal of a right as a kube-apiserver does.

use std::fmt;
use std::sync::Arc;

use super::Attributes;

/// The message of a 403 (apiserver: `responsewriters.forbiddenMessage`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    pub(super) user: String,
    pub(super) attributes: Attributes,
    pub(super) reason: Arc<str>,
}

impl Denied {
    /// The reason that the host gives, if any.
    pub fn reason(&self) -> &Arc<str> {
        &self.reason
    }

    /// The refused group, resource and name, for the details of a Status.
    pub fn details(&self) -> Option<(&'static str, &'static str, &str)> {
        match &self.attributes {
            Attributes::Resource { group, resource, name, .. } => Some((group, resource, name)),
            Attributes::NonResource { .. } => None,
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = &self.user;
        match &self.attributes {
            Attributes::NonResource { verb, path } => {
                write!(f, "forbidden: User {user:?} cannot {verb} path {path:?}")?;
            }
            Attributes::Resource { verb, group, resource, subresource, namespace, name } => {
                match group.is_empty() {
                    true => write!(f, "{resource}")?,
                    false => write!(f, "{resource}.{group}")?,
                }
                if !name.is_empty() {
                    write!(f, " {name:?}")?;
                }
                write!(f, " is forbidden: User {user:?} cannot {verb} resource \"{resource}")?;
                if !subresource.is_empty() {
                    write!(f, "/{subresource}")?;
                }
                write!(f, "\" in API group {group:?}")?;
                match namespace.is_empty() {
                    true => f.write_str(" at the cluster scope")?,
                    false => write!(f, " in the namespace {namespace:?}")?,
                }
            }
        }
        if !self.reason.is_empty() {
            write!(f, ": {}", self.reason)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::request_info::Verb;

    #[test]
    fn denial_has_the_message_of_an_apiserver() {
        let denied = Denied {
            user: "jane".to_owned(),
            attributes: Attributes::cluster(
                Verb::Get,
                kubectl_mc_api::Origin::MemberCluster,
                Some(&"m1".parse().unwrap()),
                "proxy",
            ),
            reason: "no".into(),
        };
        assert_eq!(
            denied.to_string(),
            r#"clusters.proxy.kubectl-mc.dev "m1" is forbidden: User "jane" cannot get resource "clusters/proxy" in API group "proxy.kubectl-mc.dev" at the cluster scope: no"#
        );
        assert_eq!(denied.details(), Some(("proxy.kubectl-mc.dev", "clusters", "m1")));
        let denied = Denied {
            user: "jane".to_owned(),
            attributes: Attributes::impersonate("", "serviceaccounts", "", "ns", "bob"),
            reason: Arc::default(),
        };
        assert_eq!(
            denied.to_string(),
            r#"serviceaccounts "bob" is forbidden: User "jane" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "ns""#
        );
    }
}
