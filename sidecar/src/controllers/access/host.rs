//! The host's ClusterRoles and ClusterRoleBindings, as they are followed.

use std::collections::HashSet;

use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use kubectl_mc_api::access::{Affected, Index};
use tracing::warn;

/// What the host says.
pub(super) enum Change {
    Role(watcher::Event<ClusterRole>),
    Binding(watcher::Event<ClusterRoleBinding>),
    /// A list cannot be read.
    Failed(watcher::Error),
}

pub(super) fn changes(host: &kube::Client) -> impl Stream<Item = Change> + use<> {
    let roles = watcher(Api::<ClusterRole>::all(host.clone()), watcher::Config::default());
    let bindings = watcher(Api::<ClusterRoleBinding>::all(host.clone()), watcher::Config::default());
    let roles = roles.default_backoff().map(|event| event.map_or_else(Change::Failed, Change::Role));
    let bindings = bindings.default_backoff().map(|event| event.map_or_else(Change::Failed, Change::Binding));
    stream::select(roles, bindings)
}

/// The rules so far.
#[derive(Default)]
pub(super) struct HostRbac {
    index: Index,
    roles: Names,
    bindings: Names,
    failed: Option<String>,
    absent: bool,
}

/// The objects of one kind that the index knows.
#[derive(Default)]
struct Names {
    known: HashSet<String>,
    anew: HashSet<String>,
    synced: bool,
}

impl HostRbac {
    /// Takes what the host says, and tells which members it is about.
    pub(super) fn take(&mut self, change: Change) -> Affected {
        let was_synced = self.is_synced();
        let Self { index, roles, bindings, .. } = self;
        let affected = match change {
            Change::Role(event) => roles.take(index, event, |index, role| index.role(role), Index::role_gone),
            Change::Binding(event) => {
                bindings.take(index, event, |index, binding| index.binding(binding), Index::binding_gone)
            }
            Change::Failed(error) => {
                self.failed(&error);
                Affected::nobody()
            }
        };
        if self.roles.synced && self.bindings.synced {
            self.absent = false;
        }
        if self.is_synced() {
            self.failed = None;
        }
        if self.is_synced() && !was_synced { Affected::All } else { affected }
    }

    fn failed(&mut self, error: &watcher::Error) {
        warn!(error = %error, "the host's RBAC cannot be read");
        // A host that does not authorize by RBAC need not serve it.
        if matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
        {
            self.absent = true;
        } else if !self.is_synced() {
            self.failed =
                Some(format!("the host's ClusterRoles and ClusterRoleBindings cannot be listed: {error}"));
        }
    }

    pub(super) fn is_synced(&self) -> bool {
        self.absent || (self.roles.synced && self.bindings.synced)
    }

    /// Why it is not known who may use the members.
    pub(super) fn unreadable(&self) -> Option<String> {
        self.failed.clone().filter(|_| !self.is_synced())
    }

    /// What people should know of who is listed.
    pub(super) fn note(&self) -> Option<&'static str> {
        self.absent.then_some(
            "the host serves no RBAC, so that who may use this member cannot be listed: \
             those of spec.impersonation.subjects and those who came are",
        )
    }

    pub(super) fn index(&self) -> &Index {
        &self.index
    }
}

impl Names {
    fn take<K: ResourceExt>(
        &mut self,
        index: &mut Index,
        event: watcher::Event<K>,
        there: impl Fn(&mut Index, &K) -> Affected,
        gone: impl Fn(&mut Index, &str) -> Affected,
    ) -> Affected {
        match event {
            watcher::Event::Init => {
                self.anew.clear();
                Affected::nobody()
            }
            watcher::Event::InitApply(object) => {
                self.anew.insert(object.name_any());
                there(index, &object)
            }
            watcher::Event::InitDone => {
                let anew = std::mem::take(&mut self.anew);
                let before = std::mem::replace(&mut self.known, anew);
                self.synced = true;
                let gone = before.difference(&self.known).map(|name| gone(index, name));
                gone.fold(Affected::nobody(), Affected::and)
            }
            watcher::Event::Apply(object) => {
                self.known.insert(object.name_any());
                there(index, &object)
            }
            watcher::Event::Delete(object) => {
                self.known.remove(&object.name_any());
                gone(index, &object.name_any())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kubectl_mc_api::ClusterName;
    use serde_json::json;

    use super::*;

    fn role(name: &str) -> ClusterRole {
        serde_json::from_value(json!({"metadata": {"name": name}, "rules": [{
            "apiGroups": ["proxy.kubectl-mc.dev"], "resources": ["clusters/proxy"], "verbs": ["get"],
            "resourceNames": ["m1"],
        }]}))
        .unwrap()
    }

    fn binding(name: &str, user: &str) -> ClusterRoleBinding {
        serde_json::from_value(json!({
            "metadata": {"name": name}, "subjects": [{"kind": "User", "name": user}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        }))
        .unwrap()
    }

    fn users(rbac: &HostRbac) -> Vec<String> {
        let m1: ClusterName = "m1".parse().unwrap();
        let mut users: Vec<_> = rbac.index().entitled(&m1).map(|(subject, _)| subject.to_string()).collect();
        users.sort();
        users
    }

    fn roles(rbac: &mut HostRbac, names: &[&str]) {
        rbac.take(Change::Role(watcher::Event::Init));
        for name in names {
            rbac.take(Change::Role(watcher::Event::InitApply(role(name))));
        }
        rbac.take(Change::Role(watcher::Event::InitDone));
    }

    #[test]
    fn nothing_is_known_until_both_lists_were_read_and_then_all_members_are_looked_at() {
        let mut rbac = HostRbac::default();
        roles(&mut rbac, &["r"]);
        assert!(!rbac.is_synced());
        rbac.take(Change::Binding(watcher::Event::Init));
        rbac.take(Change::Binding(watcher::Event::InitApply(binding("b", "jane"))));
        assert_eq!(rbac.take(Change::Binding(watcher::Event::InitDone)), Affected::All);
        assert!(rbac.is_synced());
        assert_eq!(users(&rbac), ["user \"jane\""]);
    }

    #[test]
    fn what_was_deleted_while_nobody_watched_is_gone_with_the_next_list() {
        let mut rbac = HostRbac::default();
        roles(&mut rbac, &["r"]);
        for names in [&["b", "c"][..], &["c"]] {
            rbac.take(Change::Binding(watcher::Event::Init));
            for name in names {
                rbac.take(Change::Binding(watcher::Event::InitApply(binding(name, name))));
            }
            rbac.take(Change::Binding(watcher::Event::InitDone));
        }
        assert_eq!(users(&rbac), ["user \"c\""]);
        roles(&mut rbac, &[]);
        assert_eq!(users(&rbac), [""; 0]);
        roles(&mut rbac, &["r"]);
        assert_eq!(users(&rbac), ["user \"c\""]);
    }

    #[test]
    fn a_host_without_rbac_has_nobody_to_list_and_it_is_said() {
        let not_found = |code| {
            let status = kube::core::Status { code, ..kube::core::Status::default() };
            Change::Failed(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))))
        };
        let mut rbac = HostRbac::default();
        rbac.take(not_found(403));
        assert!(!rbac.is_synced() && rbac.unreadable().is_some());
        assert_eq!(rbac.take(not_found(404)), Affected::All);
        assert!(rbac.is_synced() && rbac.unreadable().is_none());
        assert!(rbac.note().is_some_and(|note| note.contains("no RBAC")));
        // It was not there for a moment only.
        roles(&mut rbac, &["r"]);
        rbac.take(Change::Binding(watcher::Event::Init));
        rbac.take(Change::Binding(watcher::Event::InitDone));
        assert_eq!((rbac.is_synced(), rbac.note()), (true, None));
    }
}
