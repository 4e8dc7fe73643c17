//! The home folder on Windows, as client-go finds it (`homedir.HomeDir`): tools disagree about the variable, so the
//! folder that has a kubeconfig wins.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use super::{Env, HOME};

/// The first folder with a kubeconfig, else the first that exists and is writable, else the first that exists, else
/// the first that is set.
pub(super) fn home(env: &Env) -> Option<PathBuf> {
    let home = env.var(HOME).map(PathBuf::from);
    let profile = env.var(USERPROFILE).map(PathBuf::from);
    let drive = env.var(HOMEDRIVE).zip(env.var(HOMEPATH)).map(|(drive, path)| {
        let mut folder = OsString::from(drive);
        folder.push(path);
        PathBuf::from(folder)
    });
    let of_kubectl = [&home, &drive, &profile].into_iter().flatten();
    if let Some(found) = of_kubectl.into_iter().find(|folder| folder.join(".kube").join("config").exists()) {
        return Some(found.clone());
    }
    let set: Vec<_> = [home, profile, drive].into_iter().flatten().collect();
    let is_writable = |folder: &&PathBuf| {
        fs::metadata(folder).is_ok_and(|found| found.is_dir() && !found.permissions().readonly())
    };
    let best = set.iter().find(is_writable).or_else(|| set.iter().find(|folder| folder.exists()));
    best.or_else(|| set.first()).cloned()
}

const USERPROFILE: &str = "USERPROFILE";
const HOMEDRIVE: &str = "HOMEDRIVE";
const HOMEPATH: &str = "HOMEPATH";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_with_a_kubeconfig_wins() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["home", "profile", "drive"] {
            fs::create_dir(path(name)).unwrap();
        }
        let drive = path("drive").into_os_string().into_string().unwrap();
        let (drive, rest) = drive.split_at(4);
        let variables = [
            (HOME, path("home").into_os_string()),
            (USERPROFILE, path("profile").into()),
            (HOMEDRIVE, drive.into()),
            (HOMEPATH, rest.into()),
        ];
        let all: Env = variables.clone().into_iter().collect();
        assert_eq!(home(&all), Some(path("home")));
        let without_home: Env = variables[1..].iter().cloned().collect();
        assert_eq!(home(&without_home), Some(path("profile")));
        for name in ["profile", "drive", "home"] {
            fs::create_dir(path(name).join(".kube")).unwrap();
            fs::write(path(name).join(".kube").join("config"), "").unwrap();
            assert_eq!(home(&all), Some(path(name)));
        }
    }

    #[test]
    fn folder_that_exists_precedes_one_that_is_set() {
        let folder = tempfile::tempdir().unwrap();
        let env: Env =
            [(HOME, "/missing".as_ref()), (USERPROFILE, folder.path().as_os_str())].into_iter().collect();
        assert_eq!(home(&env), Some(folder.path().to_owned()));
        assert_eq!(home(&[(HOME, "/missing")].into_iter().collect()), Some("/missing".into()));
        assert_eq!(home(&Env::default()), None);
    }
}
