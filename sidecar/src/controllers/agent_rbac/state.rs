//! The Clusters in pull mode and the RBAC objects with the label of this sidecar, as they are on
//! the host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;
use kube::core::DynamicObject;
use kube::runtime::watcher::Event;
use kubectl_mc_api::names::{AGENT_RBAC, KARMADA_AGENT, KEPT_BY, NO_AGENT_RBAC};
use kubectl_mc_api::ownership::{Layout, rbac, subject};
use serde_json::{Map, Value};

use crate::controllers::listing::{Listing, Seen};

/// The watched kinds: Clusters, and RBAC by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Source {
    Clusters,
    ClusterRoles,
    ClusterRoleBindings,
    Roles,
    RoleBindings,
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) source: Source,
    /// Empty for an object in no namespace.
    pub(super) namespace: String,
    pub(super) name: String,
}

/// One write on the host.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Apply(Key, Value),
    Delete { key: Key, uid: Option<String> },
}

/// A maintained object, compared with the generated one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    cluster: String,
    uid: Option<String>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Exact,
    Differs,
    /// It differs in a field that an apply cannot change: a binding's role, or an aggregation rule
    /// of another manager.
    Unchangeable,
}

/// The state of the host.
pub(super) struct Agents {
    layout: Arc<Layout>,
    /// The value of label [`KEPT_BY`].
    namespace: String,
    /// The names of those in pull mode.
    clusters: BTreeSet<String>,
    found: BTreeMap<Key, Found>,
    listings: BTreeMap<Source, Listing<Key>>,
    /// Clusters with something to do.
    changed: BTreeSet<String>,
}

impl Source {
    pub(super) const ALL: [Self; 5] =
        [Self::Clusters, Self::ClusterRoles, Self::ClusterRoleBindings, Self::Roles, Self::RoleBindings];

    fn of_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.kind() == kind)
    }

    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Clusters => "Cluster",
            Self::ClusterRoles => "ClusterRole",
            Self::ClusterRoleBindings => "ClusterRoleBinding",
            Self::Roles => "Role",
            Self::RoleBindings => "RoleBinding",
        }
    }
}

impl Key {
    fn of(source: Source, object: &DynamicObject) -> Self {
        Self { source, namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
    }

    fn of_wanted(object: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let source = Source::of_kind(object["kind"].as_str()?)?;
        Some(Self { source, namespace: text(&metadata["namespace"]), name: text(&metadata["name"]) })
    }
}

impl Agents {
    pub(super) fn new(layout: Arc<Layout>, namespace: &str) -> Self {
        Self {
            layout,
            namespace: namespace.to_owned(),
            clusters: BTreeSet::new(),
            found: BTreeMap::new(),
            listings: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }

    /// Whether every kind has been listed once.
    pub(super) fn is_read(&self) -> bool {
        Source::ALL.iter().all(|source| self.listings.get(source).is_some_and(Listing::is_complete))
    }

    /// The clusters with something to do since the last call.
    pub(super) fn changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }

    /// Whether there is a Cluster of this name in pull mode, or objects that remain of it.
    pub(super) fn knows(&self, cluster: &str) -> bool {
        self.clusters.contains(cluster) || self.found.values().any(|found| found.cluster == cluster)
    }

    pub(super) fn take(&mut self, source: Source, event: Event<DynamicObject>) {
        let listing = self.listings.entry(source).or_default();
        match listing.take(event, |object| Key::of(source, object)) {
            Seen::There(object) => self.read(Key::of(source, &object), &object),
            Seen::Gone(keys) => keys.iter().for_each(|key| self.forget(key)),
        }
    }

    fn read(&mut self, key: Key, object: &DynamicObject) {
        if key.source == Source::Clusters {
            let is_changed = match is_kept(&key.name, object) {
                true => self.clusters.insert(key.name.clone()),
                false => self.clusters.remove(&key.name),
            };
            if is_changed {
                self.changed.insert(key.name);
            }
            return;
        }
        let cluster = object.labels().get(KARMADA_AGENT).cloned().unwrap_or_default();
        let state = self.state(&key, object, &cluster);
        if state != State::Exact || !self.clusters.contains(&cluster) {
            self.changed.insert(cluster.clone());
        }
        let found = Found { cluster, uid: object.uid(), state };
        // An object whose label now names another cluster may be missing for the first one.
        if let Some(before) = self.found.insert(key, found.clone())
            && before.cluster != found.cluster
        {
            self.changed.insert(before.cluster);
        }
    }

    fn state(&self, key: &Key, object: &DynamicObject, cluster: &str) -> State {
        let wanted = self.wanted(cluster).into_iter().find(|(wanted, _)| wanted == key);
        // An object of another name is never written.
        let Some((_, wanted)) = wanted else { return State::Exact };
        let has = |field: &str| wanted.get(field).is_none_or(|value| object.data.get(field) == Some(value));
        if !has("roleRef") || object.data.get("aggregationRule").is_some() {
            return State::Unchangeable;
        }
        let labels = wanted["metadata"]["labels"].as_object().into_iter().flatten();
        let mut labels =
            labels.map(|(key, value)| object.labels().get(key).map(String::as_str) == value.as_str());
        if has("rules") && has("subjects") && labels.all(|is_same| is_same) {
            State::Exact
        } else {
            State::Differs
        }
    }

    fn forget(&mut self, key: &Key) {
        if key.source == Source::Clusters {
            if self.clusters.remove(&key.name) {
                self.changed.insert(key.name.clone());
            }
        } else if let Some(found) = self.found.remove(key)
            && self.clusters.contains(&found.cluster)
        {
            self.changed.insert(found.cluster);
        }
    }

    /// The generated objects of a cluster, in the order in which they are written.
    fn wanted(&self, cluster: &str) -> Vec<(Key, Value)> {
        if !subject::is_cluster(cluster) {
            return Vec::new();
        }
        let kept = |mut object: Value| {
            object["metadata"]["labels"][KEPT_BY] = self.namespace.as_str().into();
            Some((Key::of_wanted(&object)?, object))
        };
        rbac::objects(&self.layout, cluster).into_iter().filter_map(kept).collect()
    }

    /// The writes that a cluster needs now.
    pub(super) fn steps(&self, cluster: &str) -> Vec<Step> {
        let wanted = self.wanted(cluster);
        let found = |key: &Key| self.found.get(key).filter(|found| found.cluster == cluster);
        let delete = |key: Key, found: &Found| Step::Delete { key, uid: found.uid.clone() };
        if !self.clusters.contains(cluster) {
            // Bindings first.
            let keys = wanted.into_iter().rev().map(|(key, _)| key);
            return keys.filter_map(|key| found(&key).map(|found| delete(key.clone(), found))).collect();
        }
        let mut steps = Vec::new();
        for (key, object) in wanted {
            match found(&key) {
                Some(Found { state: State::Exact, .. }) => {}
                Some(found @ Found { state: State::Unchangeable, .. }) => {
                    steps.push(delete(key.clone(), found));
                    steps.push(Step::Apply(key, object));
                }
                Some(Found { state: State::Differs, .. }) | None => steps.push(Step::Apply(key, object)),
            }
        }
        steps
    }
}

/// Whether the agent of a Cluster should have RBAC: it runs on the member (pull mode), and an
/// administrator has not removed the RBAC.
fn is_kept(name: &str, cluster: &DynamicObject) -> bool {
    let none = Map::new();
    let spec = cluster.data.get("spec").and_then(Value::as_object).unwrap_or(&none);
    let is_pull = spec.get("syncMode").and_then(Value::as_str) == Some("Pull");
    let is_taken = cluster.annotations().get(AGENT_RBAC).is_some_and(|value| value == NO_AGENT_RBAC);
    is_pull && !is_taken && subject::is_cluster(name)
}
