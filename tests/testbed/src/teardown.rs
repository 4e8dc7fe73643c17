//! Taking a bed down, from nothing but its folder: it works at any moment, any number of times.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::mount::{UnmountFlags, unmount};

use crate::network;
use crate::process;

/// Ends the bed's processes and removes its mounts, its namespaces and its folder; on wish not its logs.
pub fn teardown(dir: &Path, keep_logs: bool) -> Result<()> {
    let id = dir.file_name().context("not a bed's folder")?.to_string_lossy();
    process::end_all(&id, dir)?;
    unmount_all(dir)?;
    remove_shim_sockets(dir);
    remove_log_links(dir);
    network::remove(&id)?;
    if keep_logs {
        return remove_state(dir);
    }
    fs::remove_dir_all(dir).with_context(|| format!("cannot remove: {}", dir.display()))
}

/// Last mounted, first unmounted; lazily, because whoever is in there is dead.
fn unmount_all(dir: &Path) -> Result<()> {
    let Ok(mounts) = fs::read_to_string("/proc/self/mountinfo") else { return Ok(()) };
    for path in mounts_below(&mounts, dir).iter().rev() {
        unmount(path, UnmountFlags::DETACH).with_context(|| format!("cannot unmount: {}", path.display()))?;
    }
    Ok(())
}

fn mounts_below(mounts: &str, dir: &Path) -> Vec<PathBuf> {
    let paths = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    paths.map(|path| PathBuf::from(path.replace("\\040", " "))).filter(|path| path.starts_with(dir)).collect()
}

/// Containerd's shims have their sockets in one folder of the machine; where, is written in the task's folder.
fn remove_shim_sockets(dir: &Path) {
    for tasks in children(dir).map(|cluster| cluster.join("node/run/io.containerd.runtime.v2.task/k8s.io")) {
        for task in children(&tasks) {
            let address = fs::read_to_string(task.join("address")).unwrap_or_default();
            if let Some(socket) = address.trim().strip_prefix("unix://") {
                let _ = fs::remove_file(socket);
            }
        }
    }
}

/// A kubelet links the logs of its containers into one folder of the machine.
fn remove_log_links(dir: &Path) {
    for link in children(Path::new("/var/log/containers")) {
        if fs::read_link(&link).is_ok_and(|log| log.starts_with(dir)) {
            let _ = fs::remove_file(link);
        }
    }
}

/// What is large and tells nothing.
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

fn children(dir: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_mounted_below_the_bed_is_unmounted() {
        let mounts = "\
1 0 8:1 / / rw - ext4 /dev/sda rw
2 1 0:9 / /beds/mc-1/m1/a rw - overlay overlay rw
3 1 0:9 / /beds/mc-1/m1/a/b\\040c rw - tmpfs tmpfs rw
4 1 0:9 / /beds/mc-12/m1 rw - tmpfs tmpfs rw";
        let paths = mounts_below(mounts, Path::new("/beds/mc-1"));
        assert_eq!(paths, [Path::new("/beds/mc-1/m1/a"), Path::new("/beds/mc-1/m1/a/b c")]);
    }
}
