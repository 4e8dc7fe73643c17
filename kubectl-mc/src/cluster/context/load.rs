//! Reads and merges kubeconfig files as kubectl does: the first file with an entry wins, missing files of a
//! list are skipped, and relative paths are resolved against their file.

use std::collections::HashSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use kube::config::Kubeconfig;

use super::error::HostError;
use super::options::HostOptions;
use super::parse;
use crate::env::{self, Env};

/// The files to read, in order: `--kubeconfig`, else `KUBECONFIG`, else `~/.kube/config`.
pub(super) fn files(options: &HostOptions, env: &Env) -> Vec<PathBuf> {
    if let Some(file) = &options.kubeconfig {
        return vec![file.clone()];
    }
    if let Some(list) = env.var(env::KUBECONFIG) {
        let mut seen = HashSet::new();
        return std::env::split_paths(list)
            .filter(|file| !file.as_os_str().is_empty() && seen.insert(file.clone()))
            .collect();
    }
    env.home().map(|home| home.join(".kube").join("config")).into_iter().collect()
}

/// Merges all files. The file of `--kubeconfig` must exist.
pub(super) fn merged(files: &[PathBuf], required: bool) -> Result<Kubeconfig, HostError> {
    let mut merged = Kubeconfig::default();
    for file in files {
        let bytes = match std::fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !required => continue,
            Err(source) => return Err(HostError::Read { file: file.clone(), source }),
        };
        let parse = |reason| HostError::Parse { file: file.clone(), reason };
        let mut next = parse::parsed(&bytes).map_err(parse)?;
        let absolute =
            std::path::absolute(file).map_err(|source| HostError::Read { file: file.clone(), source })?;
        resolve_paths(&mut next, absolute.parent().unwrap_or_else(|| Path::new("/")));
        merged = merged.merge(next).map_err(|error| parse(error.to_string()))?;
    }
    Ok(merged)
}

/// client-go's `ResolveLocalPaths`: an empty path stays empty, and an exec command is a path only
/// when it has a separator.
pub(super) fn resolve_paths(kubeconfig: &mut Kubeconfig, folder: &Path) {
    let resolve = |path: &mut Option<String>| {
        if let Some(path) =
            path.as_mut().filter(|path| !path.is_empty() && Path::new(path.as_str()).is_relative())
        {
            *path = clean(&folder.join(&*path)).to_string_lossy().into_owned();
        }
    };
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|entry| entry.cluster.as_mut()) {
        resolve(&mut cluster.certificate_authority);
    }
    for user in kubeconfig.auth_infos.iter_mut().filter_map(|entry| entry.auth_info.as_mut()) {
        resolve(&mut user.client_certificate);
        resolve(&mut user.client_key);
        resolve(&mut user.token_file);
        if let Some(exec) = &mut user.exec
            && exec.command.as_deref().is_some_and(|command| command.contains(std::path::MAIN_SEPARATOR))
        {
            resolve(&mut exec.command);
        }
    }
}

/// Go's `filepath.Clean` of an absolute path.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = clean.pop(),
            component => clean.push(component),
        }
    }
    clean
}
