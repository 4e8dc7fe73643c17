//! Authenticates callers ([`authentication`]), authorizes their requests on the host ([`authorization`]), and
//! builds the identity that a member sees ([`impersonation`]). An identity is apiserver's
//! `authentication/user.Info`.

use std::collections::BTreeMap;

pub use kubectl_mc_api::access::sent::{AUTHENTICATED, MASTERS, UNAUTHENTICATED, service_account_groups};
use kubectl_mc_api::access::subject;

mod attempts;
pub mod authentication;
pub mod authorization;
pub mod front_proxy_headers;
pub mod impersonation;
pub mod peer;
pub mod request_header;
pub mod review_metrics;
pub mod trust;
pub mod x509;

/// An authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    pub user: String,
    pub uid: Option<String>,
    pub groups: Vec<String>,
    /// Keys are lower case, because they are parsed from header names and written to header names.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The user name of callers without a credential.
pub const ANONYMOUS: &str = "system:anonymous";

impl Identity {
    /// The identity of callers without a credential.
    pub fn anonymous() -> Self {
        Self { user: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// Adds the group of authenticated users, as the apiserver does.
    pub fn authenticated(mut self) -> Self {
        let named = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if self.user != ANONYMOUS && !self.groups.iter().any(named) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// The namespace and the name, if this is a service account.
    pub fn service_account(&self) -> Option<(&str, &str)> {
        subject::service_account(&self.user)
    }

    /// The approximate size of the identity in bytes. Caches do not store very large identities.
    pub fn size(&self) -> usize {
        let strings = |list: &[String]| list.iter().map(String::len).sum::<usize>();
        self.user.len()
            + self.uid.as_ref().map_or(0, String::len)
            + strings(&self.groups)
            + self.extra.iter().map(|(key, values)| key.len() + strings(values)).sum::<usize>()
    }
}
