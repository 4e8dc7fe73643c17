//! Loads the contexts of `--kubeconfig-dir`, where every kubeconfig file is independent: its
//! contexts use the users and clusters of their own file, regardless of names in other files.
//!
//! A file that cannot be read becomes a context that fails when it is used, so that it is visible
//! in every result. A file from a folder or glob that is not a kubeconfig is skipped with a note.

mod files;
mod names;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::config::{Kubeconfig, NamedContext};
use serde_json::Value;

use self::files::File;
use super::all::{Contexts, Entries, is_of_overlay};
use super::cluster_context::{CLUSTER, ClusterContext};
use super::error::HostError;
use super::island::Island;
use super::{document, load, parse};
use crate::cluster::cluster_id::KubeconfigContext;
use crate::error::chain;

/// The contexts of all files, sorted by name.
pub(super) fn contexts(dirs: &[PathBuf]) -> Result<Contexts, HostError> {
    let all: Arc<[PathBuf]> = dirs.into();
    let (mut found, mut skipped) = (Vec::new(), Vec::new());
    for file in files::files(dirs)? {
        match read(&file) {
            Ok(Ok(kubeconfig)) => of_file(&file.path, kubeconfig, &all, &mut found),
            Ok(Err(NotKubeconfig(reason))) => {
                skipped.push(format!("{} is skipped: {reason}", file.path.display()))
            }
            Err(error) => found.push(Found::unusable(&file.path, None, &error, &all)),
        }
    }
    let names =
        names::unique(&found.iter().map(|found| (&*found.file, found.name.as_deref())).collect::<Vec<_>>());
    let named = names.iter().zip(found);
    let mut all: Vec<_> = named.map(|(name, found)| KubeconfigContext::new(name, found.cluster)).collect();
    all.sort_by(|a, b| a.raw_name().cmp(b.raw_name()));
    Ok(Contexts { all, skipped, unusable: Vec::new() })
}

/// A context of a file, or a file that cannot be read.
struct Found {
    file: PathBuf,
    name: Option<String>,
    cluster: ClusterContext,
}

impl Found {
    fn unusable(file: &Path, name: Option<String>, error: &HostError, dirs: &Arc<[PathBuf]>) -> Self {
        let island = Island { dirs: Arc::clone(dirs), unusable: Some(chain(error)) };
        let cluster = ClusterContext {
            context: name.clone(),
            files: vec![file.to_owned()],
            kubeconfig_flag: Some(file.to_owned()),
            island: Some(island),
            ..ClusterContext::empty()
        };
        Self { file: file.to_owned(), name, cluster }
    }
}

/// A file from a folder or glob that is clearly not a kubeconfig, and the reason.
struct NotKubeconfig(String);

fn read(file: &File) -> Result<Result<Kubeconfig, NotKubeconfig>, HostError> {
    let path = &file.path;
    let failed = |source| HostError::Read { file: path.clone(), source };
    let is_regular = std::fs::metadata(path).map_err(failed)?.is_file();
    if !is_regular {
        let reason = "it is no regular file".to_owned();
        return match file.is_named {
            true => Err(HostError::Parse { file: path.clone(), reason }),
            false => Ok(Err(NotKubeconfig(reason))),
        };
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    let mut kubeconfig = match parse::parsed(&bytes) {
        Ok(kubeconfig) => kubeconfig,
        Err(reason) if !file.is_named && document::json(&bytes).is_ok_and(|value| is_foreign(&value)) => {
            return Ok(Err(NotKubeconfig(format!("it is no kubeconfig: {reason}"))));
        }
        Err(reason) => return Err(HostError::Parse { file: path.clone(), reason }),
    };
    if kubeconfig.contexts.is_empty() {
        return match file.is_named {
            true => Err(HostError::NoContexts { files: vec![path.clone()] }),
            false => Ok(Err(NotKubeconfig("it has no contexts".to_owned()))),
        };
    }
    let absolute = std::path::absolute(path).map_err(failed)?;
    load::resolve_paths(&mut kubeconfig, absolute.parent().unwrap_or_else(|| Path::new("/")));
    Ok(Ok(kubeconfig))
}

/// Whether a document is clearly something else, and not a kubeconfig with a mistake.
fn is_foreign(document: &Value) -> bool {
    let parts = ["clusters", "contexts", "users", "current-context"];
    document.as_object().is_none_or(|document| parts.iter().all(|part| !document.contains_key(*part)))
}

fn of_file(path: &Path, kubeconfig: Kubeconfig, dirs: &Arc<[PathBuf]>, found: &mut Vec<Found>) {
    let Kubeconfig { clusters, auth_infos, contexts, .. } = kubeconfig;
    let entries = Entries::of(clusters, auth_infos);
    for NamedContext { name, context, .. } in contexts {
        let context = context.unwrap_or_default();
        if is_of_overlay(&context) {
            continue;
        }
        let alone = entries.alone(&name, &context);
        let cluster = ClusterContext::from_context(name.clone(), context, alone, vec![path.to_owned()]);
        let mut cluster = match cluster {
            Ok(cluster) => cluster,
            Err(error) => {
                let error = error.in_role(CLUSTER);
                found.push(Found::unusable(path, Some(name), &error, dirs));
                continue;
            }
        };
        cluster.kubeconfig_flag = Some(path.to_owned());
        cluster.island = Some(Island { dirs: Arc::clone(dirs), unusable: None });
        found.push(Found { file: path.to_owned(), name: Some(name), cluster });
    }
}

#[cfg(test)]
mod tests;
