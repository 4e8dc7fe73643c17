//! The spare clusters s1 and s4 as hosts of one test at a time each: what is installed there is cluster-wide.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use anyhow::{Result, ensure};
use testbed::Cluster;
/// The image of the sidecar on its node.
pub use testbed::images::SIDECAR;

use crate::bed::spare;
use crate::leftovers::Clean;
use crate::tool::Tool;
use crate::turn::Turn;

/// A cluster with a node that nothing is installed on, as it is again when this is dropped.
pub struct SpareHost {
    pub cluster: &'static Cluster,
    _clean: Clean,
    _turn: Turn,
}

impl SpareHost {
    /// Waits until no other test has it.
    pub fn take() -> Result<Self> {
        let there: Vec<_> = HOSTS.into_iter().filter(|name| spare(name).is_ok()).collect();
        ensure!(!there.is_empty(), "the bed has no spare host: start it with --spare s1 --node s1");
        let (name, turn) = Turn::take_any(&there)?;
        let cluster = spare(name)?;
        ensure!(cluster.node.is_some(), "{name} has no node: start the bed with --node {name}");
        Ok(Self { cluster, _clean: Clean::take(cluster)?, _turn: turn })
    }

    /// The plugin as its administrator.
    pub fn plugin(&self, program: &Path) -> Result<Tool> {
        Tool::plugin_at(program, &[self.cluster])
    }
}

const HOSTS: [&str; 2] = ["s1", "s4"];

/// Every object of a cluster: `kind namespace name`. Events come and go, and nodes write their Lease when they do.
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
