//! Decides which subjects the sidecar may impersonate on one member, each with its reasons, and
//! which are omitted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::builtin::{is_privileged_group, is_privileged_namespace, is_privileged_user};
use super::observed_user::ObservedUser;
use super::policy::Policy;
use super::sent::{self, HOST_ACCOUNTS};
use super::subject::{Because, Subject};
use crate::member_cluster::{Forwarding, Impersonation, ServiceAccounts, Users};
use crate::name::is_label;
use crate::names::HOST_ADMINS;

/// The rights of a member's impersonator, and the reasons for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberRules {
    /// Every user may be impersonated, so the role lists none by name.
    pub any_user: bool,
    pub users: BTreeMap<String, Reasons>,
    pub groups: BTreeMap<String, Reasons>,
    /// By namespace.
    pub accounts: BTreeMap<String, Accounts>,
    pub uid: bool,
    pub extra: bool,
    pub left_out: BTreeMap<Subject, LeftOut>,
}

/// All reasons for a right: bindings and others.
pub type Reasons = BTreeSet<Because>;

/// The service accounts of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// The reasons for all service accounts of the namespace, whose group is bound; empty if it is not.
    pub all: Reasons,
    pub names: BTreeMap<String, Reasons>,
}

/// A subject that the host authorizes and that gets no right on the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub why: Why,
    pub because: Reasons,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Each user of the group gets a right at the first request.
    OneByOne,
    /// The sidecar never sends it to a member.
    NeverSent,
    /// [`HOST_ADMINS`] is sent in its place.
    AdminGroup,
    Privileged,
    /// No namespace of a service account can have the name.
    NoNamespace,
    /// `spec.impersonation.serviceAccounts` is `Omit`.
    AccountsOmitted,
    MemberRefuses,
}

impl MemberRules {
    /// `admin_groups` are those of the sidecar's flag, `policy` is the member's.
    pub fn new<'a>(
        admin_groups: &[String],
        impersonation: &Impersonation,
        policy: &Policy,
        entitled: impl IntoIterator<Item = (&'a Subject, Because)>,
        observed: &[ObservedUser],
    ) -> Self {
        let mut rules = Self {
            any_user: impersonation.users == Users::Any && policy.any_user,
            uid: impersonation.uid == Forwarding::Forward,
            extra: impersonation.extra == Forwarding::Forward,
            ..Self::default()
        };
        let accounts = impersonation.service_accounts;
        let mut make = Make { rules: &mut rules, admin_groups, accounts, policy };
        make.group(HOST_ADMINS, Because::Administrators);
        for (subject, because) in entitled {
            make.entitled(subject, because);
        }
        let more = impersonation.subjects.iter().flatten().filter_map(Subject::of);
        more.for_each(|subject| make.entitled(&subject, Because::Spec));
        for subject in observed.iter().flat_map(|observed| observed.subjects(admin_groups, accounts)) {
            make.sent(&subject, Because::Observed);
        }
        rules
    }

    /// Human-readable counts.
    pub fn summary(&self) -> String {
        let many = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
        let users = if self.any_user { "any user".to_owned() } else { many(self.users.len(), "user") };
        let named: usize = self.accounts.values().map(|accounts| accounts.names.len()).sum();
        let all = self.accounts.values().filter(|accounts| !accounts.all.is_empty()).count();
        let mut text =
            format!("{users}, {}, {}", many(self.groups.len(), "group"), many(named, "service account"));
        if all > 0 {
            text.push_str(&format!(", all service accounts of {}", many(all, "namespace")));
        }
        text
    }
}

/// Builds rules.
struct Make<'a> {
    rules: &'a mut MemberRules,
    admin_groups: &'a [String],
    accounts: ServiceAccounts,
    policy: &'a Policy,
}

impl Make<'_> {
    /// Adds the subject of a binding. A group of service accounts stands for all accounts of its namespace.
    fn entitled(&mut self, subject: &Subject, because: Because) {
        let Subject::Group(group) = subject else { return self.one(subject, because) };
        let left_out = match group.as_str() {
            sent::SERVICE_ACCOUNTS if self.accounts == ServiceAccounts::Omit => Some(Why::AccountsOmitted),
            sent::AUTHENTICATED | sent::SERVICE_ACCOUNTS => Some(Why::OneByOne),
            sent::UNAUTHENTICATED => Some(Why::NeverSent),
            group if self.admin_groups.iter().any(|admin| admin == group) => {
                self.group(HOST_ADMINS, because.clone());
                Some(Why::AdminGroup)
            }
            HOST_ADMINS => Some(Why::Privileged),
            group => match sent::accounts_of(group) {
                Some(namespace) => match (self.refused_namespace(namespace), self.accounts) {
                    (None, ServiceAccounts::Same) => {
                        self.accounts_of(namespace).all.insert(because);
                        return;
                    }
                    // They are users there, and RBAC rules cannot match users by prefix.
                    (None, _) => Some(Why::OneByOne),
                    (refused, _) => refused,
                },
                None => return self.group(group, because),
            },
        };
        if let Some(why) = left_out {
            self.left_out(subject.clone(), why, because);
        }
    }

    /// Adds one subject of the host.
    fn one(&mut self, subject: &Subject, because: Because) {
        match subject {
            Subject::Group(group) => self.group(group, because),
            Subject::User(user) => match is_privileged_user(user) {
                true => self.left_out(subject.clone(), Why::Privileged, because),
                false => self.user(user, because),
            },
            Subject::ServiceAccount { namespace, name } => match self.refused_namespace(namespace) {
                Some(why) => self.left_out(subject.clone(), why, because),
                None if self.accounts == ServiceAccounts::Same => {
                    _ = self.accounts_of(namespace).names.entry(name.clone()).or_default().insert(because);
                }
                // The member derives no groups for it.
                None => {
                    let groups = sent::service_account_groups(namespace).map(Subject::Group);
                    let sent =
                        groups.iter().chain([subject]).filter_map(|one| sent::subject(self.accounts, one));
                    sent.collect::<Vec<_>>().iter().for_each(|one| self.sent(one, because.clone()));
                }
            },
        }
    }

    /// Adds a name as it is sent to the member. Only service accounts of the host have their
    /// prefix.
    fn sent(&mut self, subject: &Subject, because: Because) {
        match subject {
            Subject::User(name) if name.starts_with(HOST_ACCOUNTS) => self.user(name, because),
            Subject::Group(name) if name.starts_with(HOST_ACCOUNTS) => self.plain_group(name, because),
            other => self.one(other, because),
        }
    }

    fn user(&mut self, user: &str, because: Because) {
        match refused_by(&self.policy.refused_users, user) {
            None => _ = self.rules.users.entry(user.to_owned()).or_default().insert(because),
            Some(why) => self.left_out(Subject::User(user.to_owned()), why, because),
        }
    }

    fn group(&mut self, group: &str, because: Because) {
        // The only name under kubectl-mc's prefix that stands for a group of the host.
        if group != HOST_ADMINS && is_privileged_group(group) {
            return self.left_out(Subject::Group(group.to_owned()), Why::Privileged, because);
        }
        self.plain_group(group, because);
    }

    fn plain_group(&mut self, group: &str, because: Because) {
        match refused_by(&self.policy.refused_groups, group) {
            None => _ = self.rules.groups.entry(group.to_owned()).or_default().insert(because),
            Some(why) => self.left_out(Subject::Group(group.to_owned()), why, because),
        }
    }

    /// Why the service accounts of a namespace get no right. The member's refusals of namespaces are about its own
    /// accounts.
    fn refused_namespace(&self, namespace: &str) -> Option<Why> {
        // A binding may contain any text here, which becomes a part of a request's path.
        if !is_label(namespace) {
            return Some(Why::NoNamespace);
        }
        if is_privileged_namespace(namespace) {
            return Some(Why::Privileged);
        }
        match self.accounts {
            ServiceAccounts::Same => refused_by(&self.policy.refused_namespaces, namespace),
            ServiceAccounts::Prefixed => None,
            ServiceAccounts::Omit => Some(Why::AccountsOmitted),
        }
    }

    fn accounts_of(&mut self, namespace: &str) -> &mut Accounts {
        self.rules.accounts.entry(namespace.to_owned()).or_default()
    }

    fn left_out(&mut self, subject: Subject, why: Why, because: Because) {
        let left_out = self.rules.left_out.entry(subject);
        left_out.or_insert_with(|| LeftOut { why, because: Reasons::new() }).because.insert(because);
    }
}

/// Whether the member's administrators refuse a name.
fn refused_by(names: &BTreeSet<String>, name: &str) -> Option<Why> {
    names.contains(name).then_some(Why::MemberRefuses)
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneByOne => "its users are added one by one, when they first come",
            Self::NoNamespace => "no namespace can have this name",
            Self::NeverSent => "no member is shown it",
            Self::AccountsOmitted => "spec.impersonation.serviceAccounts of the MemberCluster is Omit",
            Self::AdminGroup => "members are shown kubectl-mc:host-admins in its place",
            Self::Privileged => "an identity of the control plane, or of the sidecar's own",
            Self::MemberRefuses => "the member's ConfigMap kubectl-mc-manager refuses it",
        })
    }
}

#[cfg(test)]
mod tests;
