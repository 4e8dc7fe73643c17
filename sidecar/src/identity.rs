//! Who a caller is on the host (apiserver: `authentication/user.Info`): how it is found out ([`authentication`]), what
//! they may do ([`authorization`]), and whom a member sees ([`impersonation`]).

use std::collections::BTreeMap;

use kubectl_mc_api::access::sent;
pub use kubectl_mc_api::access::sent::{AUTHENTICATED, MASTERS, UNAUTHENTICATED, service_account_groups};

mod attempts;
pub mod authentication;
pub mod authorization;
pub mod front_proxy_headers;
pub mod impersonation;
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
    /// Keys are lower case, as they arrive in headers and leave in headers.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The user who gave no credential.
pub const ANONYMOUS: &str = "system:anonymous";

impl Identity {
    /// Who showed no credential.
    pub fn anonymous() -> Self {
        Self { user: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// Adds the group that says that authentication succeeded, as the apiserver does.
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
        sent::service_account(&self.user)
    }

    /// About how many bytes the identity takes, to keep monsters out of caches.
    pub fn size(&self) -> usize {
        let strings = |list: &[String]| list.iter().map(String::len).sum::<usize>();
        self.user.len()
            + self.uid.as_ref().map_or(0, String::len)
            + strings(&self.groups)
            + self.extra.iter().map(|(key, values)| key.len() + strings(values)).sum::<usize>()
    }
}
