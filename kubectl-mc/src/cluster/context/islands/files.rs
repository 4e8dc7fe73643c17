//! Finds the files of `--kubeconfig-dir`: those in a folder except hidden ones, those that a glob
//! matches, or a named file.

use std::collections::HashSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use regex::Regex;

use crate::cluster::context::error::HostError;
use crate::glob;

/// A file to read.
pub(super) struct File {
    pub(super) path: PathBuf,
    /// Whether the user named the file itself, and not a folder or a glob.
    pub(super) is_named: bool,
}

/// The files in the order of the folders, without duplicates.
pub(super) fn files(dirs: &[PathBuf]) -> Result<Vec<File>, HostError> {
    let (mut files, mut seen) = (Vec::new(), HashSet::new());
    for dir in dirs {
        for file in matching(dir)? {
            // The folder of a mounted Secret has each file twice, because of links.
            let same = std::fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
            if seen.insert(same) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

fn matching(dir: &Path) -> Result<Vec<File>, HostError> {
    let failed = |source| HostError::Read { file: dir.to_owned(), source };
    match std::fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => {
            let entries = entries(dir)?.into_iter().filter(|path| !is_hidden(path));
            Ok(files_of(entries))
        }
        Ok(_) => Ok(vec![File { path: dir.to_owned(), is_named: true }]),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        Err(error) if !glob::is_glob(&dir.to_string_lossy()) => Err(failed(error)),
        Err(_) => {
            let files = files_of(expanded(dir)?.into_iter());
            if files.is_empty() {
                return Err(HostError::NoFiles { glob: dir.to_owned() });
            }
            Ok(files)
        }
    }
}

/// The entries that are not folders. A dangling link is kept, for the error that names it.
fn files_of(paths: impl Iterator<Item = PathBuf>) -> Vec<File> {
    let files = paths.filter(|path| !path.is_dir());
    files.map(|path| File { path, is_named: false }).collect()
}

/// The paths that a glob matches. A part of the path without glob syntax is a name.
fn expanded(pattern: &Path) -> Result<Vec<PathBuf>, HostError> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let text = component.as_os_str().to_string_lossy();
        let Component::Normal(name) = component else {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        };
        if !glob::is_glob(&text) {
            found.iter_mut().for_each(|path| path.push(name));
            continue;
        }
        let expression = glob::expression(&text, |_| true).and_then(|text| Regex::new(&text).ok());
        let expression = expression.ok_or_else(|| HostError::InvalidGlob { glob: pattern.to_owned() })?;
        let mut next = Vec::new();
        for folder in &found {
            let place = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            if !place.is_dir() {
                continue;
            }
            for path in entries(place)? {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let is_shown = !is_hidden(&path) || text.starts_with('.');
                if is_shown && expression.is_match(&name) {
                    next.push(folder.join(name_of(&path)));
                }
            }
        }
        found = next;
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    Ok(found)
}

/// The entries of a folder, sorted.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, HostError> {
    let failed = |source| HostError::Read { file: folder.to_owned(), source };
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    paths.sort();
    Ok(paths)
}

fn name_of(path: &Path) -> &Path {
    path.file_name().map_or(path, Path::new)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}
