//! Finds a program as Go's `exec.LookPath` does, so that the plugin runs the same file as kubectl.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::env::{self, Env};

/// The file that runs for this name: a path unchanged, otherwise the first file in `PATH`. A file
/// in the current folder runs only if its path is given, so that a folder cannot replace a program.
pub(crate) fn look_path(program: &OsStr, env: &Env) -> io::Result<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        // The error of the system, if there is no such file.
        path.metadata()?;
        return match is_executable(path) {
            true => Ok(path.to_owned()),
            false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not executable")),
        };
    }
    let names = endings().iter().map(|ending| {
        let mut name = program.to_owned();
        name.push(ending);
        name
    });
    let names: Vec<_> = names.collect();
    let first = in_path(&names, env).next();
    let found = first.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such file in PATH"))?;
    if found.is_relative() {
        return Err(io::Error::other("PATH finds it relative to the current folder"));
    }
    Ok(found)
}

/// The executable files of these names in `PATH`, in order.
fn in_path(names: &[std::ffi::OsString], env: &Env) -> impl Iterator<Item = PathBuf> {
    let folders = std::env::split_paths(env.var(env::PATH).unwrap_or_default()).collect::<Vec<_>>();
    let files = move |folder: PathBuf| names.iter().map(move |name| folder.join(name));
    folders.into_iter().flat_map(files).filter(|path| is_executable(path))
}

/// The file extensions of programs.
fn endings() -> &'static [&'static str] {
    if cfg!(windows) { &["", ".com", ".exe", ".bat", ".cmd"] } else { &[""] }
}

#[cfg(unix)]
pub(crate) fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
pub(crate) fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn program_is_found_as_by_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("login");
        std::fs::write(&path, "").unwrap();
        let in_folder: Env = [(env::PATH, folder.path())].into_iter().collect();
        let look = |program: &OsStr, env: &Env| look_path(program, env).map_err(|error| error.to_string());
        assert_eq!(look("login".as_ref(), &in_folder), Err("no such file in PATH".to_owned()));
        assert_eq!(look(path.as_ref(), &in_folder), Err("it is not executable".to_owned()));
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(look("login".as_ref(), &in_folder), Ok(path.clone()));
        assert_eq!(look(path.as_ref(), &Env::default()), Ok(path));
        assert_eq!(look("login".as_ref(), &Env::default()), Err("no such file in PATH".to_owned()));
        // The tests run in the folder of the package, which has no executable file, but its parents do.
        let relative: Env = [(env::PATH, "../../../../../../../../../../bin")].into_iter().collect();
        let found = look("sh".as_ref(), &relative);
        assert_eq!(found, Err("PATH finds it relative to the current folder".to_owned()));
    }
}
