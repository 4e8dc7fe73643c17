//! Parses the subjects of a grant, and refuses those that cannot get one.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use kubectl_mc_api::access::sent::{self, AUTHENTICATED, BUILTIN_ADMIN_GROUPS, UNAUTHENTICATED};
use kubectl_mc_api::access::{Subject, builtin};
use kubectl_mc_api::member_cluster::ServiceAccounts;
use kubectl_mc_api::names::HOST_ADMINS;
use serde_json::{Value, json};

use crate::cli::{Flags, GrantArgs, WhoArgs};
use crate::error::Failure;
use crate::next_command::quoted;

/// Refuses `view jane`, where a user name follows the role.
pub(super) fn check_words(
    argument: Option<&str>,
    arguments: &GrantArgs,
    flags: &Flags,
) -> Result<(), Failure> {
    let (Some(first), Some(second)) = (argument, &arguments.role) else { return Ok(()) };
    let WhoArgs { user, group, serviceaccount } = &arguments.who;
    let is_without_subject = user.is_empty() && group.is_empty() && serviceaccount.is_empty();
    let is_chosen = !flags.cluster.is_empty() || flags.cluster_selector.is_some() || flags.all_clusters;
    let is_cluster = is_chosen && flags.cluster.join(",") == first;
    if !is_without_subject || is_cluster || !(is_chosen || USUAL_ROLES.contains(&first)) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "the role is {first}, and {second} is no flag: a flag names the user, group or service account"
    ))
    .with_hint(format!("did you mean {}?", quoted(format!("--user={second}").as_ref()))))
}

/// The roles that Kubernetes has in every cluster.
pub(crate) const USUAL_ROLES: &[&str] = &["view", "edit", "admin", "cluster-admin"];

/// A subject that may get a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GrantSubject(Subject);

impl GrantSubject {
    /// All named subjects, each checked.
    pub(crate) fn of(who: &WhoArgs) -> Result<Vec<Self>, Failure> {
        let WhoArgs { user, group, serviceaccount } = who;
        let users = user.iter().map(|name| Self::user(name));
        let groups = group.iter().map(|name| Self::group(name));
        let accounts = serviceaccount.iter().map(|account| Self::service_account(account));
        let subjects: Vec<_> = users.chain(groups).chain(accounts).collect::<Result<_, _>>()?;
        if subjects.is_empty() {
            return Err(Failure::usage("no user, group or service account is named")
                .with_hint("name one: --user=NAME, --group=NAME or --serviceaccount=NAMESPACE:NAME"));
        }
        Ok(subjects)
    }

    pub(super) fn user(name: &str) -> Result<Self, Failure> {
        if let Some(account) = name.strip_prefix("system:serviceaccount:") {
            return Err(Failure::usage("--user does not take a service account")
                .with_hint(format!("--serviceaccount={account}")));
        }
        let reason = match name {
            "" => "it is empty",
            "system:anonymous" => "it stands for every caller without a credential",
            _ if builtin::is_privileged_user(name) => CONTROL_PLANE,
            _ => return Ok(Self(Subject::User(name.to_owned()))),
        };
        Err(senseless("user", name, reason))
    }

    fn group(name: &str) -> Result<Self, Failure> {
        let reason = match name {
            "" => "it is empty",
            AUTHENTICATED | UNAUTHENTICATED => "every caller is in it, and the sidecar never forwards it",
            name if BUILTIN_ADMIN_GROUPS.contains(&name) => {
                "the sidecar forwards kubectl-mc:host-admins in its place"
            }
            HOST_ADMINS => "join binds it for the host's administrators; see --no-host-admins",
            _ if builtin::is_privileged_group(name) => CONTROL_PLANE,
            _ => return Ok(Self(Subject::Group(name.to_owned()))),
        };
        Err(senseless("group", name, reason))
    }

    fn service_account(account: &str) -> Result<Self, Failure> {
        let Some((namespace, name)) = account
            .split_once(':')
            .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && !name.contains(':'))
        else {
            return Err(Failure::usage(format!("invalid service account {account:?}"))
                .with_hint("write it --serviceaccount=NAMESPACE:NAME"));
        };
        if builtin::is_privileged_namespace(namespace) {
            return Err(senseless("service account", account, CONTROL_PLANE));
        }
        Ok(Self(Subject::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }))
    }

    /// The subject in the notation of a binding on the host.
    pub(crate) fn rbac(&self) -> Value {
        json!(self.0.to_rbac())
    }

    /// The subject that a binding on a member names; `None` if the member never sees it.
    pub(crate) fn on_member(&self, accounts: ServiceAccounts) -> Option<Value> {
        sent::subject(accounts, &self.0).map(|subject| json!(subject.to_rbac()))
    }

    /// Whether a member's settings decide under which name it sees the subject.
    pub(crate) fn depends_on_member(&self) -> bool {
        sent::subject(ServiceAccounts::Omit, &self.0).is_none()
    }

    /// The subject as part of an object's name: readable if possible, and unique.
    pub(crate) fn tag(&self) -> String {
        let text = match &self.0 {
            Subject::User(name) => format!("user:{name}"),
            Subject::Group(name) => format!("group:{name}"),
            Subject::ServiceAccount { namespace, name } => format!("serviceaccount:{namespace}:{name}"),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | ':');
        if text.len() <= MAX_PLAIN && text.chars().all(plain) {
            return text;
        }
        let hash = digest(&SHA256, text.as_bytes());
        let hash: String = hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let readable: String =
            text.chars().take(MAX_PLAIN / 2).map(|c| if plain(c) { c } else { '-' }).collect();
        // A plain name never contains this form, so it cannot collide with a hashed one.
        format!("{readable}~{hash}")
    }
}

/// `user "jane"`
impl fmt::Display for GrantSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Subject::User(name) => write!(f, "user {name:?}"),
            Subject::Group(name) => write!(f, "group {name:?}"),
            Subject::ServiceAccount { namespace, name } => {
                write!(f, "service account \"{namespace}:{name}\"")
            }
        }
    }
}

fn senseless(what: &str, name: &str, reason: &str) -> Failure {
    Failure::usage(format!("cannot grant access to the {what} {name:?}: {reason}"))
}

const CONTROL_PLANE: &str =
    "it belongs to the host's control plane or to the sidecar, whose identities the sidecar never forwards";
/// Leaves room for the cluster's and the role's name in one object name.
const MAX_PLAIN: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(user: &[&str], group: &[&str], account: &[&str]) -> Result<Vec<GrantSubject>, Failure> {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        GrantSubject::of(&WhoArgs { user: list(user), group: list(group), serviceaccount: list(account) })
    }

    #[test]
    fn users_groups_and_accounts_are_subjects() {
        let subjects = of(&["jane"], &["dev"], &["ci:deployer"]).unwrap();
        assert_eq!(
            subjects.iter().map(GrantSubject::tag).collect::<Vec<_>>(),
            ["user:jane", "group:dev", "serviceaccount:ci:deployer"]
        );
        assert_eq!(
            subjects[2].rbac(),
            json!({"kind": "ServiceAccount", "name": "deployer", "namespace": "ci"})
        );
    }

    #[test]
    fn member_sees_accounts_as_its_settings_say() {
        let subjects = of(&["jane"], &["system:serviceaccounts:ci"], &["ci:deployer"]).unwrap();
        let names = |accounts| -> Vec<Option<String>> {
            let seen = subjects.iter().map(|subject| subject.on_member(accounts));
            seen.map(|subject| Some(subject?["name"].as_str()?.to_owned())).collect()
        };
        let some = |name: &str| Some(name.to_owned());
        let same = [some("jane"), some("system:serviceaccounts:ci"), some("deployer")];
        assert_eq!(names(ServiceAccounts::Same), same);
        let prefixed = "kubectl-mc:host:serviceaccount:ci:deployer";
        let expected = [some("jane"), some("kubectl-mc:host:serviceaccounts:ci"), some(prefixed)];
        assert_eq!(names(ServiceAccounts::Prefixed), expected);
        assert_eq!(names(ServiceAccounts::Omit), [some("jane"), None, None]);
        assert_eq!(
            subjects.iter().map(GrantSubject::depends_on_member).collect::<Vec<_>>(),
            [false, true, true]
        );
    }

    #[test]
    fn system_subjects_are_refused_by_name() {
        for name in
            ["", "system:anonymous", "system:kube-scheduler", "system:node:a", "kubectl-mc:x", "kubelet"]
        {
            let error = of(&[name], &[], &[]).unwrap_err();
            assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
        }
        for name in ["system:authenticated", "system:masters", "system:nodes", "kubectl-mc:host-admins", ""] {
            let error = of(&[], &[name], &[]).unwrap_err();
            assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
        }
        assert!(
            of(&[], &[], &["kube-system:replicaset-controller"])
                .unwrap_err()
                .to_string()
                .contains("control plane")
        );
        for account in ["deployer", "a:b:c", ":x", "x:"] {
            let error = of(&[], &[], &[account]).unwrap_err();
            assert_eq!(error.to_string(), format!("invalid service account {account:?}"));
        }
        let error = of(&["system:serviceaccount:ci:deployer"], &[], &[]).unwrap_err();
        assert_eq!(error.hint, Some("--serviceaccount=ci:deployer".into()));
    }

    #[test]
    fn distinct_subjects_get_distinct_valid_name_parts() {
        let tag = |name: &str| GrantSubject(Subject::User(name.to_owned())).tag();
        for name in ["https://issuer.example/#jane", "a/b", "a%b", "Jürgen", &"x".repeat(300)] {
            let tag = tag(name);
            assert!(tag.len() < 128 && !tag.contains(['/', '%']) && tag.is_ascii(), "{tag}");
        }
        assert_ne!(tag("a/b"), tag("a%b"));
        assert_ne!(tag(&"x".repeat(300)), tag(&"x".repeat(301)));
    }
}
