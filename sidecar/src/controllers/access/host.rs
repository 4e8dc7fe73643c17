//! Watches the host's ClusterRoles and ClusterRoleBindings and keeps an index of them.

use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use kubectl_mc_api::access::{Affected, Index};
use kubectl_mc_api::{MemberCluster, Origin};
use tracing::warn;

use crate::controllers::listing::{Listing, Seen};
use crate::host::watch_backoff::WatchBackoff;

/// An event of the host's RBAC.
pub(super) enum Change {
    Role(watcher::Event<ClusterRole>),
    Binding(watcher::Event<ClusterRoleBinding>),
    /// A list cannot be read, or a watch failed.
    Failed(watcher::Error),
    /// The host serves no RBAC: the list is 404, and discovery does not list the group.
    Absent(watcher::Error),
}

pub(super) fn changes(host: &kube::Client) -> impl Stream<Item = Change> + use<> {
    let roles = watcher(Api::<ClusterRole>::all(host.clone()), watcher::Config::default());
    let bindings = watcher(Api::<ClusterRoleBinding>::all(host.clone()), watcher::Config::default());
    let of_roles = host.clone();
    let roles = roles
        .backoff(WatchBackoff::default())
        .then(move |event| change(of_roles.clone(), event, Change::Role));
    let of_bindings = host.clone();
    let bindings = bindings
        .backoff(WatchBackoff::default())
        .then(move |event| change(of_bindings.clone(), event, Change::Binding));
    stream::select(roles, bindings)
}

async fn change<K>(
    host: kube::Client,
    event: watcher::Result<watcher::Event<K>>,
    of: fn(watcher::Event<K>) -> Change,
) -> Change {
    match event {
        Ok(event) => of(event),
        Err(error) if is_not_found(&error) && serves_no_rbac(&host).await => Change::Absent(error),
        Err(error) => Change::Failed(error),
    }
}

fn is_not_found(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

/// Whether the host's discovery lists no RBAC. A 404 of the list is not enough: a proxy or a starting
/// kube-apiserver can respond with 404 to any path, and every member would lose all rights. Discovery of a
/// starting kube-apiserver can be incomplete too; a complete one lists the group of MemberClusters.
async fn serves_no_rbac(host: &kube::Client) -> bool {
    let Ok(discovery) = host.list_api_groups().await else { return false };
    let lists = |name: &str| discovery.groups.iter().any(|group| group.name == name);
    lists(MemberCluster::group(&()).as_ref()) && !lists(ClusterRole::group(&()).as_ref())
}

/// The rules read so far.
#[derive(Default)]
pub(super) struct HostRbac {
    indexes: Indexes,
    roles: Listing<String>,
    bindings: Listing<String>,
    failed: Option<String>,
    /// A host that does not authorize by RBAC need not serve it.
    absent: bool,
}

/// The index for kubectl-mc's own members, and the one for the members of a hub whose rights are written, if
/// any.
#[derive(Default)]
struct Indexes {
    own: Index,
    hub: Option<Index>,
}

impl Indexes {
    fn take<K>(
        &mut self,
        seen: Seen<String, K>,
        there: impl Fn(&mut Index, &K) -> Affected,
        gone: impl Fn(&mut Index, &str) -> Affected,
    ) -> Affected {
        match seen {
            Seen::There(object) => self.each(|index| there(index, &object)),
            Seen::Gone(names) => {
                let gone = names.iter().map(|name| self.each(|index| gone(index, name)));
                gone.fold(Affected::none(), Affected::and)
            }
        }
    }

    fn each(&mut self, change: impl Fn(&mut Index) -> Affected) -> Affected {
        let hub = self.hub.as_mut().map_or_else(Affected::none, &change);
        change(&mut self.own).and(hub)
    }
}

impl HostRbac {
    /// Empty rules, for kubectl-mc's own members and those of this hub.
    pub(super) fn new(hub: Option<Origin>) -> Self {
        let indexes = Indexes { own: Index::default(), hub: hub.map(Index::of) };
        Self { indexes, ..Self::default() }
    }

    /// Applies an event and returns the affected members.
    pub(super) fn take(&mut self, change: Change) -> Affected {
        let was_synced = self.is_synced();
        let Self { indexes, roles, bindings, .. } = self;
        let affected = match change {
            Change::Role(event) => {
                indexes.take(roles.take(event, ResourceExt::name_any), Index::role, Index::role_gone)
            }
            Change::Binding(event) => {
                let seen = bindings.take(event, ResourceExt::name_any);
                indexes.take(seen, Index::binding, Index::binding_gone)
            }
            Change::Failed(error) => {
                self.failed(&error);
                Affected::none()
            }
            Change::Absent(error) => {
                warn!(error = %error, "the host serves no RBAC");
                self.absent = true;
                Affected::none()
            }
        };
        if self.roles.is_complete() && self.bindings.is_complete() {
            self.absent = false;
        }
        if self.is_synced() {
            self.failed = None;
        }
        if self.is_synced() && !was_synced { Affected::All } else { affected }
    }

    fn failed(&mut self, error: &watcher::Error) {
        warn!(error = %error, "cannot read the host's RBAC");
        // Any other failure leaves open whether the host serves RBAC.
        self.absent = false;
        if !self.is_synced() {
            self.failed =
                Some(format!("the host's ClusterRoles and ClusterRoleBindings cannot be listed: {error}"));
        }
    }

    pub(super) fn is_synced(&self) -> bool {
        self.absent || (self.roles.is_complete() && self.bindings.is_complete())
    }

    /// Why the users of the members are unknown, if they are.
    pub(super) fn unreadable(&self) -> Option<String> {
        self.failed.clone().filter(|_| !self.is_synced())
    }

    /// A note for the condition's message about the listed users.
    pub(super) fn note(&self) -> Option<&'static str> {
        self.absent.then_some(
            "the host serves no RBAC, so that who may use this member cannot be listed: \
             those of spec.impersonation.subjects and those who came are",
        )
    }

    /// The rules for a member of this inventory.
    pub(super) fn index(&self, origin: Origin) -> &Index {
        self.indexes.hub.as_ref().filter(|_| origin.is_hub()).unwrap_or(&self.indexes.own)
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
        let mut users: Vec<_> =
            rbac.index(Origin::MemberCluster).entitled(&m1).map(|(subject, _)| subject.to_string()).collect();
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
    fn members_sync_once_both_lists_are_read() {
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
    fn deletion_during_a_watch_gap_is_seen_at_relist() {
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

    /// The error of a failed list.
    fn error(code: u16) -> watcher::Error {
        let status = kube::core::Status { code, ..kube::core::Status::default() };
        watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn host_without_rbac_counts_as_synced_with_a_note() {
        let mut rbac = HostRbac::default();
        rbac.take(Change::Failed(error(403)));
        assert!(!rbac.is_synced() && rbac.unreadable().is_some());
        assert_eq!(rbac.take(Change::Absent(error(404))), Affected::All);
        assert!(rbac.is_synced() && rbac.unreadable().is_none());
        assert!(rbac.note().is_some_and(|note| note.contains("no RBAC")));
        // The RBAC API was missing only for a moment.
        roles(&mut rbac, &["r"]);
        rbac.take(Change::Binding(watcher::Event::Init));
        rbac.take(Change::Binding(watcher::Event::InitDone));
        assert_eq!((rbac.is_synced(), rbac.note()), (true, None));
    }

    #[test]
    fn failed_list_resets_the_absence_of_rbac() {
        let mut rbac = HostRbac::default();
        rbac.take(Change::Absent(error(404)));
        rbac.take(Change::Failed(error(500)));
        assert!(!rbac.is_synced() && rbac.unreadable().is_some());
    }

    /// The event for a host whose lists fail with `code` and whose discovery has these groups, or fails.
    async fn first_change(code: u16, groups: Option<&[&str]>) -> Change {
        let groups: Option<Vec<_>> = groups.map(|groups| {
            let version = json!({"groupVersion": "g/v1", "version": "v1"});
            groups.iter().map(|name| json!({"name": name, "versions": [version]})).collect()
        });
        let (client, _) = crate::host::fake::host(move |_| match &groups {
            Some(groups) => (200, json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})),
            None => (503, json!({})),
        });
        let failed: watcher::Result<watcher::Event<ClusterRole>> = Err(error(code));
        change(client, failed, Change::Role).await
    }

    #[tokio::test]
    async fn missing_list_needs_confirmation_by_discovery() {
        const OURS: &str = "fleet.kubectl-mc.dev";
        const RBAC: &str = "rbac.authorization.k8s.io";
        assert!(matches!(first_change(404, Some(&["apps", OURS])).await, Change::Absent(_)));
        for (code, groups) in [
            (404, Some(&["apps", OURS, RBAC][..])),
            (404, Some(&["apps"])),
            (404, Some(&[])),
            (404, None),
            (403, Some(&["apps", OURS])),
            (500, Some(&["apps", OURS])),
        ] {
            assert!(matches!(first_change(code, groups).await, Change::Failed(_)), "{code} {groups:?}");
            let mut rbac = HostRbac::default();
            rbac.take(first_change(code, groups).await);
            assert!(!rbac.is_synced(), "nothing is taken away: {code} {groups:?}");
        }
    }
}
