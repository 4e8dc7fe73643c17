//! Takes a bed down, given only its folder. It works at any moment and any number of times.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::network;
use crate::process;

/// Ends the bed's processes, and with them its mounts. Then removes its cgroups, its namespaces and its
/// folder, optionally without its logs.
pub fn teardown(dir: &Path, keep_logs: bool) -> Result<()> {
    let id = dir.file_name().context("not a bed's folder")?.to_string_lossy();
    process::end_all(&id, dir)?;
    remove_cgroups(dir);
    network::remove(&id)?;
    if keep_logs {
        return remove_state(dir);
    }
    fs::remove_dir_all(dir).with_context(|| format!("cannot remove: {}", dir.display()))
}

/// Removes the cgroups of containers that were still running. They are named after their container
/// ID, below a folder that all containerds of a machine share. The folders of the bed's tasks have
/// these IDs.
fn remove_cgroups(dir: &Path) {
    let tasks = children(dir).map(|cluster| cluster.join("node/run/io.containerd.runtime.v2.task/k8s.io"));
    let ids =
        tasks.flat_map(|tasks| children(&tasks)).filter_map(|task| task.file_name().map(ToOwned::to_owned));
    let root = Path::new("/sys/fs/cgroup");
    let parents = children(root).chain([root.to_owned()]).map(|parent| parent.join("k8s.io"));
    let parents = parents.filter(|parent| parent.is_dir()).collect::<Vec<_>>();
    for id in ids {
        for parent in &parents {
            remove_cgroup(&parent.join(&id));
        }
    }
    for parent in parents {
        // This fails if the folder is not empty, because other containers use it.
        let _ = fs::remove_dir(parent);
    }
}

/// Removes a cgroup, starting at its leaves. A cgroup that is missing or not empty is not an error.
fn remove_cgroup(cgroup: &Path) {
    for child in children(cgroup).filter(|child| child.is_dir()) {
        remove_cgroup(&child);
    }
    let _ = fs::remove_dir(cgroup);
}

/// Removes large state that does not help to find an error.
fn remove_state(dir: &Path) -> Result<()> {
    for cluster in children(dir) {
        for state in ["etcd", "node/containerd", "node/run", "node/kubelet"] {
            let state = cluster.join(state);
            if state.exists() {
                fs::remove_dir_all(&state).with_context(|| format!("cannot remove: {}", state.display()))?;
            }
        }
    }
    Ok(())
}

fn children(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_removed_and_logs_stay() {
        let dir = std::env::temp_dir().join(format!("testbed-state-{}", std::process::id()));
        fs::create_dir_all(dir.join("m1/etcd/member")).unwrap();
        fs::write(dir.join("m1/etcd.log"), "log").unwrap();
        remove_state(&dir).unwrap();
        assert!(dir.join("m1/etcd.log").exists() && !dir.join("m1/etcd").exists());
        fs::remove_dir_all(dir).unwrap();
    }
}
