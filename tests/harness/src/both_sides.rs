//! A caller who administers the host and another cluster, with one kubeconfig for both.

use anyhow::Result;
use serde_json::{Value, json};
use testbed::Cluster;

use crate::bed::spare;
use crate::caller::Caller;
use crate::leftovers::Clean;
use crate::turn::Turn;

/// The host's administrator, whose kubeconfig also has the member's administrator, as context `member`.
pub fn both(member: &Cluster, change: impl Fn(&mut Value)) -> Result<Caller> {
    let administrator = Caller::certificate("e2e-join-admin", &["system:masters"])?;
    administrator.edit(|config| add_context(config, member, &change))
}

/// Adds the member's own kubeconfig as context `member`, with its cluster changed.
pub fn add_context(config: &mut Value, member: &Cluster, change: &dyn Fn(&mut Value)) {
    let text = std::fs::read(&member.kubeconfig).unwrap_or_default();
    let other: Value = serde_json::from_slice(&text).unwrap_or_default();
    let mut cluster = other["clusters"][0]["cluster"].clone();
    change(&mut cluster);
    let entries = [
        ("clusters", json!({"name": "member", "cluster": cluster})),
        ("users", json!({"name": "member", "user": other["users"][0]["user"]})),
        ("contexts", json!({"name": "member", "context": {"cluster": "member", "user": "member"}})),
    ];
    for (list, entry) in entries {
        if let Some(list) = config[list].as_array_mut() {
            list.push(entry);
        }
    }
}

/// The cluster for tests of joins. One test has it at a time, and it is not joined to any host
/// before or after the test.
pub struct Alone {
    pub cluster: &'static Cluster,
    _clean: Clean,
    _turn: Turn,
}

/// Waits until no other test has the cluster.
pub fn alone() -> Result<Alone> {
    let (cluster, turn) = (spare("j1")?, Turn::take("j1")?);
    Ok(Alone { cluster, _clean: Clean::take(cluster)?, _turn: turn })
}
