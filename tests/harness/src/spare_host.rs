//! Lends the spare clusters with a node to one test at a time, because a test's objects are cluster-wide: s1
//! as a host, s4 as a member.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use anyhow::{Result, ensure};
use testbed::Cluster;
/// The image of the sidecar on the cluster's node.
pub use testbed::images::SIDECAR;

use crate::bed::spare;
use crate::leftovers::Clean;
use crate::tool::Tool;
use crate::turn::Turn;

/// A cluster with a node. Now, and again after this is dropped, it has no installation.
pub struct SpareHost {
    pub cluster: &'static Cluster,
    _clean: Clean,
    _turn: Turn,
}

impl SpareHost {
    /// The host s1. Waits until no other test has it.
    pub fn take() -> Result<Self> {
        Self::named("s1")
    }

    /// The member s4, so that tests of members and of hosts run side by side.
    pub fn take_member() -> Result<Self> {
        Self::named("s4")
    }

    fn named(name: &str) -> Result<Self> {
        let turn = Turn::take(name)?;
        let cluster = spare(name)?;
        ensure!(cluster.node.is_some(), "{name} has no node: start the bed with --node {name}");
        Ok(Self { cluster, _clean: Clean::take(cluster)?, _turn: turn })
    }

    /// The plugin as its administrator.
    pub fn plugin(&self, program: &Path) -> Result<Tool> {
        Tool::plugin_at(program, &[self.cluster])
    }
}

/// Every object of a cluster, as `kind namespace name`. Events and the Leases of nodes are left
/// out, since they change by themselves.
pub fn listing(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let kubectl = Tool::admin(cluster)?;
    let kinds = kubectl.ok(&["api-resources", "--verbs=list,delete", "-o", "name"])?;
    let kinds = kinds.lines().filter(|kind| !kind.starts_with("events")).collect::<Vec<_>>().join(",");
    let columns = "custom-columns=K:.kind,NS:.metadata.namespace,N:.metadata.name";
    let all = kubectl.ok(&["get", &kinds, "-A", "--no-headers", "-o", columns])?;
    let objects = all.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    Ok(objects.filter(|object| !object.starts_with("Lease kube-node-lease ")).collect())
}

/// The kubeconfigs of clusters as one, the first being the current.
pub(crate) fn kubeconfigs(clusters: &[&Cluster]) -> Result<OsString> {
    Ok(std::env::join_paths(clusters.iter().map(|cluster| &cluster.kubeconfig))?)
}
