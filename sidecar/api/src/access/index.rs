//! Indexes the host's ClusterRoles and ClusterRoleBindings: from a cluster to the roles that reach it, from a
//! role to its bindings, and back. The cost of a change depends on the clusters that it affects, not on their
//! total.
//!
//! RoleBindings and Roles are ignored, because clusters are not namespaced.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};

use super::matching::Reach;
use super::subject::{Because, Subject};
use crate::names::SIDECAR;
use crate::{ClusterName, Origin};

/// The subjects that may use each cluster's proxy, for the members of one inventory.
#[derive(Debug, Default)]
pub struct Index {
    origin: Origin,
    /// The clusters that a role reaches; roles that reach none are absent.
    roles: HashMap<Arc<str>, Reach>,
    bindings: HashMap<Arc<str>, Bound>,
    /// The bindings of a role, whether it exists or not.
    of_role: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// The roles that reach every cluster.
    everywhere: BTreeSet<Arc<str>>,
    /// The roles that reach a cluster by its name.
    named: HashMap<ClusterName, BTreeSet<Arc<str>>>,
}

/// The role and the subjects of a binding.
#[derive(Debug, PartialEq)]
struct Bound {
    role: Arc<str>,
    subjects: Vec<Subject>,
}

/// The clusters whose subjects a change may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affected {
    All,
    Named(BTreeSet<ClusterName>),
}

impl Index {
    /// An empty index for the members of an inventory.
    pub fn of(origin: Origin) -> Self {
        Self { origin, ..Self::default() }
    }

    /// Adds or replaces a role.
    pub fn role(&mut self, role: &ClusterRole) -> Affected {
        let name = role.metadata.name.as_deref().unwrap_or_default();
        self.reaches(name, Reach::of(role.rules.as_deref().unwrap_or_default(), self.origin))
    }

    pub fn role_gone(&mut self, name: &str) -> Affected {
        self.reaches(name, Reach::default())
    }

    /// Adds or replaces a binding.
    pub fn binding(&mut self, binding: &ClusterRoleBinding) -> Affected {
        let name = binding.metadata.name.as_deref().unwrap_or_default();
        let subjects = binding.subjects.iter().flatten().filter_map(Subject::of).collect();
        // The sidecar's own role holds the rights that it grants for ClusterAccesses. It makes no requests to
        // members as itself, so this binding entitles no subject.
        let to_a_cluster_role = binding.role_ref.kind == "ClusterRole" && binding.role_ref.name != SIDECAR;
        let bound = to_a_cluster_role.then(|| Bound { role: Arc::from(&*binding.role_ref.name), subjects });
        self.binds(name, bound)
    }

    pub fn binding_gone(&mut self, name: &str) -> Affected {
        self.binds(name, None)
    }

    /// The subjects that may use a cluster's proxy, and the binding of each. A subject of several bindings is
    /// repeated.
    pub fn entitled(&self, cluster: &ClusterName) -> impl Iterator<Item = (&Subject, Because)> {
        let named = self.named.get(cluster).into_iter().flatten();
        let bindings = self.everywhere.iter().chain(named).filter_map(|role| self.of_role.get(role));
        bindings.flatten().filter_map(|name| Some((name, self.bindings.get(name)?))).flat_map(
            |(name, Bound { role, subjects })| {
                let because = Because::Binding { binding: name.clone(), role: role.clone() };
                subjects.iter().map(move |subject| (subject, because.clone()))
            },
        )
    }

    fn reaches(&mut self, name: &str, reach: Reach) -> Affected {
        let name: Arc<str> = Arc::from(name);
        let before = self.roles.remove(&name).unwrap_or_default();
        if before != reach {
            self.everywhere.remove(&name);
            for cluster in before.named.difference(&reach.named) {
                if let Some(roles) = self.named.get_mut(cluster) {
                    roles.remove(&name);
                    if roles.is_empty() {
                        self.named.remove(cluster);
                    }
                }
            }
            for cluster in reach.named.difference(&before.named) {
                self.named.entry(cluster.clone()).or_default().insert(name.clone());
            }
            if reach.all {
                self.everywhere.insert(name.clone());
            }
        }
        let affected = match self.of_role.contains_key(&name) {
            false => Affected::none(),
            true if before.all != reach.all => Affected::All,
            true => Affected::Named(before.named.symmetric_difference(&reach.named).cloned().collect()),
        };
        if !reach.is_nothing() {
            self.roles.insert(name, reach);
        }
        affected
    }

    fn binds(&mut self, name: &str, bound: Option<Bound>) -> Affected {
        let name: Arc<str> = Arc::from(name);
        let before = self.bindings.remove(&name);
        if before == bound {
            self.bindings.extend(bound.map(|bound| (name, bound)));
            return Affected::none();
        }
        let mut affected = Affected::none();
        if let Some(Bound { role, .. }) = before {
            affected = affected.and(self.reached_by(&role));
            if let Some(bindings) = self.of_role.get_mut(&role) {
                bindings.remove(&name);
                if bindings.is_empty() {
                    self.of_role.remove(&role);
                }
            }
        }
        if let Some(bound) = bound {
            affected = affected.and(self.reached_by(&bound.role));
            self.of_role.entry(bound.role.clone()).or_default().insert(name.clone());
            self.bindings.insert(name, bound);
        }
        affected
    }

    fn reached_by(&self, role: &str) -> Affected {
        match self.roles.get(role) {
            None => Affected::none(),
            Some(Reach { all: true, .. }) => Affected::All,
            Some(Reach { named, .. }) => Affected::Named(named.clone()),
        }
    }
}

impl Affected {
    pub fn none() -> Self {
        Self::Named(BTreeSet::new())
    }

    pub fn includes(&self, cluster: &ClusterName) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(cluster),
        }
    }

    /// The union of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Named(mut names), Self::Named(more)) => {
                names.extend(more);
                Self::Named(names)
            }
            _ => Self::All,
        }
    }
}

/// The subjects of a cluster with all their reasons.
pub fn by_subject<'a>(
    entitled: impl IntoIterator<Item = (&'a Subject, Because)>,
) -> BTreeMap<&'a Subject, BTreeSet<Because>> {
    let mut subjects: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (subject, because) in entitled {
        subjects.entry(subject).or_default().insert(because);
    }
    subjects
}

#[cfg(test)]
mod tests;
