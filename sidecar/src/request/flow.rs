//! Assigns each login its priority level and its share in the limits (apiserver: `util/flowcontrol`, with the
//! subjects of `apis/flowcontrol/bootstrap`). The impersonated user does not count, because
//! otherwise made-up users would have their own shares. Through the host, the login is the user
//! that the host names: the host already applied impersonation, as in a kube-apiserver's own
//! limits.

use kubectl_mc_api::access::sent;
use kubectl_mc_api::names;

use crate::identity::{ANONYMOUS, AUTHENTICATED, Identity, MASTERS, UNAUTHENTICATED};
use crate::limits::in_flight::{Caller, Level, Limits};

/// The key by which the limits distinguish logins.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Distinguisher<'a> {
    User(&'a str),
    /// All service accounts of one namespace, because its tenant can create any number of them.
    Namespace(&'a str),
}

/// The login as a holder of seats.
pub fn caller(limits: &Limits, login: &Identity) -> Caller {
    limits.caller(level(login), distinguisher(login))
}

fn level(login: &Identity) -> Level {
    let account = login.service_account();
    match login.user.as_str() {
        _ if login.is_in(MASTERS) => Level::Exempt,
        ANONYMOUS => Level::CatchAll,
        _ if login.is_in(UNAUTHENTICATED) || !login.is_in(AUTHENTICATED) => Level::CatchAll,
        "system:kube-controller-manager" | "system:kube-scheduler" => Level::System,
        _ if login.is_in(NODES) => Level::System,
        _ if account.is_some_and(|(namespace, _)| namespace == KUBE_SYSTEM) => Level::System,
        _ if login.is_in(sent::SERVICE_ACCOUNTS) => Level::WorkloadHigh,
        _ => Level::Interactive,
    }
}

fn distinguisher(login: &Identity) -> Distinguisher<'_> {
    match login.service_account() {
        // Each of these accounts belongs to another member.
        Some((names::AGENTS, _)) | None => Distinguisher::User(&login.user),
        Some((namespace, _)) => Distinguisher::Namespace(namespace),
    }
}

const NODES: &str = "system:nodes";
const KUBE_SYSTEM: &str = "kube-system";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::in_flight::Size;

    fn login(user: &str, groups: &[&str]) -> Identity {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Identity { user: user.to_owned(), groups, ..Identity::default() }
    }

    #[test]
    fn levels_follow_the_login() {
        const ACCOUNTS: &[&str] = &["system:serviceaccounts", "system:serviceaccounts:ci", AUTHENTICATED];
        for (user, groups, expected) in [
            ("admin", &[MASTERS, AUTHENTICATED][..], Level::Exempt),
            ("system:apiserver", &[MASTERS], Level::Exempt),
            ("system:kube-controller-manager", &[AUTHENTICATED], Level::System),
            ("system:kube-scheduler", &[AUTHENTICATED], Level::System),
            ("system:node:n1", &["system:nodes", AUTHENTICATED], Level::System),
            ("system:serviceaccount:kube-system:generic-garbage-collector", ACCOUNTS, Level::System),
            ("system:serviceaccount:ci:runner", ACCOUNTS, Level::WorkloadHigh),
            ("system:serviceaccount:kube-system2:x", ACCOUNTS, Level::WorkloadHigh),
            ("jane", &["dev", AUTHENTICATED], Level::Interactive),
            ("jane", &["kubeadm:cluster-admins", AUTHENTICATED], Level::Interactive),
            ("system:serviceaccount:ci:runner", &[AUTHENTICATED], Level::Interactive),
            ("system:node:n1", &[AUTHENTICATED], Level::Interactive),
            ("system:kube-scheduler2", &[AUTHENTICATED], Level::Interactive),
            (ANONYMOUS, &[UNAUTHENTICATED], Level::CatchAll),
            (ANONYMOUS, &["system:nodes", AUTHENTICATED], Level::CatchAll),
            ("jane", &["system:nodes", UNAUTHENTICATED], Level::CatchAll),
            ("jane", &["dev"], Level::CatchAll),
            ("", &[], Level::CatchAll),
        ] {
            assert_eq!(level(&login(user, groups)), expected, "{user} {groups:?}");
        }
    }

    #[test]
    fn service_accounts_of_a_namespace_have_one_share() {
        let limits = Limits::new(Size::new(1, 0), Size::new(1, 0), 0, 0, 0);
        let account = |namespace: &str, name: &str| {
            let user = format!("system:serviceaccount:{namespace}:{name}");
            caller(&limits, &login(&user, &["system:serviceaccounts", AUTHENTICATED]))
        };
        assert_eq!(account("ci", "a"), account("ci", "b"));
        assert_ne!(account("ci", "a"), account("cd", "a"));
        assert_ne!(account(names::AGENTS, "m1"), account(names::AGENTS, "m2"));
        assert_ne!(account("ci", "a"), caller(&limits, &login("ci", &[AUTHENTICATED])));
    }

    #[test]
    fn namespace_and_user_with_equal_names_differ() {
        assert_ne!(Distinguisher::User("ci"), Distinguisher::Namespace("ci"));
        let limits = Limits::new(Size::new(1, 0), Size::new(1, 0), 0, 0, 0);
        let key = |key| limits.caller(Level::Interactive, key);
        assert_ne!(key(Distinguisher::User("ci")), key(Distinguisher::Namespace("ci")));
    }
}
