//! Checks this machine: the plugin in `PATH`, kubectl, the configuration and the cache.

use std::path::{Path, PathBuf};

use super::krew::{self, KrewPlugin};
use super::report::Finding;
use crate::cache::Cache;
use crate::cli;
use crate::config_file::{self, ConfigFile};
use crate::env::{self, Env};
use crate::error::Explain;
use crate::kubectl::exec::{self, Kubectl, KubectlError, executables};

pub(super) fn check(kubectl: Result<&KubectlFound, &KubectlError>, env: &Env) -> Vec<Finding> {
    let here = std::env::current_exe().unwrap_or_default();
    let mut findings = vec![plugin(&here, env)];
    findings.extend(shadows(env));
    findings.push(match kubectl {
        Ok(KubectlFound { path, version }) => self::kubectl(path, version.as_deref()),
        Err(error) => Finding::problem("kubectl", error.to_string(), error.hint()),
    });
    findings.push(completion(env));
    findings.push(configuration(env));
    if let Err(failure) = Cache::open(env) {
        findings.push(Finding::warning(
            "cache",
            format!("{failure}: each command asks everything again"),
            failure.hint.unwrap_or_else(|| {
                format!("make the folder writable, or set {}", env::XDG_CACHE_HOME).into()
            }),
        ));
    }
    findings
}

/// The found kubectl and its version.
pub(super) struct KubectlFound {
    path: PathBuf,
    /// Its `gitVersion`.
    version: Option<String>,
}

impl KubectlFound {
    pub(super) fn find(env: &Env) -> Result<Self, KubectlError> {
        let kubectl = Kubectl::find(env)?;
        let kubeconfig = env.var(env::KUBECONFIG).unwrap_or_default();
        Ok(Self { path: kubectl.path().to_owned(), version: kubectl.version(kubeconfig).ok() })
    }

    pub(super) fn minor(&self) -> Option<u32> {
        exec::minor(self.version.as_deref()?)
    }
}

/// kubectl runs the first `kubectl-mc` in `PATH`, which may be another program: krew's own index has a plugin
/// of this name.
fn plugin(here: &Path, env: &Env) -> Finding {
    let all = executables("kubectl-mc", env);
    let is_here = |path: &PathBuf| path.canonicalize().ok() == here.canonicalize().ok();
    let others: Vec<_> = all.iter().filter(|path| !is_here(path)).collect();
    match all.first() {
        None => Finding::warning(
            "plugin",
            format!("{} is not in PATH as kubectl-mc: `kubectl mc` does not find it", here.display()),
            format!("put it into a folder of PATH as kubectl-mc; its own folder is {}", folder(here)),
        ),
        Some(first) if !is_here(first) => Finding::problem(
            "plugin",
            format!("`kubectl mc` runs {}, not {}", described(first, env), here.display()),
            Some(replace(first, env)),
        ),
        Some(first) if !others.is_empty() => {
            let named: Vec<_> = others.iter().map(|other| described(other, env)).collect();
            let removed: Vec<_> = others.iter().map(|other| remove(other, env)).collect();
            Finding::warning(
                "plugin",
                format!("{} {}; further in PATH: {}", cli::version(), first.display(), named.join(", ")),
                format!("remove what is not used: {}", removed.join("; ")),
            )
        }
        Some(first) => Finding::ok("plugin", format!("{} {}", cli::version(), first.display())),
    }
}

fn folder(file: &Path) -> String {
    file.parent().unwrap_or(file).display().to_string()
}

/// The path of another program, and the index from which krew installed it.
fn described(other: &Path, env: &Env) -> String {
    match KrewPlugin::of(other, env) {
        Some(plugin) => format!("{} ({})", other.display(), plugin.describe()),
        None => other.display().to_string(),
    }
}

/// The step after which `kubectl mc` runs this plugin and not the other program.
fn replace(other: &Path, env: &Env) -> String {
    match KrewPlugin::of(other, env) {
        Some(plugin) => plugin.replace(),
        None => format!("remove {}, or put its folder after this one in PATH", other.display()),
    }
}

/// The command that removes a program, or its path.
fn remove(other: &Path, env: &Env) -> String {
    match KrewPlugin::of(other, env) {
        Some(_) => krew::UNINSTALL.to_owned(),
        None => other.display().to_string(),
    }
}

/// Finds plugins that shadow verbs. kubectl prefers the plugin with the longest name, so
/// `kubectl-mc-get` would handle `kubectl mc get`.
fn shadows(env: &Env) -> Vec<Finding> {
    let names = longer_names(env);
    names
        .into_iter()
        .map(|(path, verb)| {
            Finding::problem(
                "plugin",
                format!("`kubectl mc {verb}` runs {}", path.display()),
                Some(format!("rename or remove {}", path.display())),
            )
        })
        .collect()
}

fn longer_names(env: &Env) -> Vec<(PathBuf, String)> {
    let folders = std::env::split_paths(env.var(env::PATH).unwrap_or_default());
    let files = folders.filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
    let mut found: Vec<_> = files
        .filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            let verb = name.strip_prefix("kubectl-mc-")?.trim_end_matches(".exe").to_owned();
            executables(&name, env).contains(&file.path()).then(|| (file.path(), verb.replace('_', "-")))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

fn kubectl(path: &Path, version: Option<&str>) -> Finding {
    let path = path.display();
    let Some(version) = version else {
        let fix = format!("{}=/path/to/kubectl chooses another kubectl", env::KUBECTL);
        return Finding::problem("kubectl", format!("{path} does not print its version"), Some(fix));
    };
    match exec::minor(version) {
        Some(minor) if minor < FIRST_WITH_WEB_SOCKET => Finding::warning(
            "kubectl",
            format!(
                "{version} {path}: exec and cp use SPDY only, which many proxies and load balancers refuse"
            ),
            format!(
                "install kubectl 1.{FIRST_WITH_WEB_SOCKET} or later, or set {}=/path/to/kubectl",
                env::KUBECTL
            ),
        ),
        _ => Finding::ok("kubectl", format!("{version} {path}")),
    }
}

/// kubectl runs a program of this name to complete the plugin `mc`.
fn completion(env: &Env) -> Finding {
    match executables("kubectl_complete-mc", env).first() {
        Some(path) => Finding::ok("completion", path.display().to_string()),
        None => Finding {
            fix: Some("kubectl mc completion install".into()),
            ..Finding::skipped("completion", "not installed")
        },
    }
}

fn configuration(env: &Env) -> Finding {
    let Some(path) = config_file::path(env).filter(|path| path.exists()) else {
        return Finding::ok("configuration", "no file, which is fine");
    };
    match ConfigFile::load(env) {
        Ok(_) => Finding::ok("configuration", path.display().to_string()),
        Err(failure) => {
            let fix = failure.hint.clone().unwrap_or_else(|| format!("correct {}", path.display()).into());
            Finding::problem("configuration", failure.to_string(), Some(fix))
        }
    }
}

/// The first version whose exec and cp try WebSocket before SPDY (KEP-4006).
const FIRST_WITH_WEB_SOCKET: u32 = 30;

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::report::Level;
    use super::*;

    fn program(folder: &Path, name: &str) -> PathBuf {
        std::fs::create_dir_all(folder).unwrap();
        let path = folder.join(name);
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn path(folders: &[&Path]) -> Env {
        [(env::PATH, std::env::join_paths(folders).unwrap())].into_iter().collect()
    }

    #[test]
    fn first_plugin_in_the_path_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, krew) = (folder.path().join("ours"), folder.path().join(".krew/bin"));
        let here = program(&ours, "kubectl-mc");
        assert_eq!(plugin(&here, &path(&[&ours])).level, Level::Ok);
        assert_eq!(plugin(&here, &path(&[])).level, Level::Warning);
        let other = program(&krew, "kubectl-mc");
        assert_eq!(plugin(&here, &path(&[&ours, &krew])).level, Level::Warning);
        let shadowed = plugin(&here, &path(&[&krew, &ours]));
        assert_eq!(shadowed.level, Level::Problem);
        assert!(shadowed.message.contains(&format!("runs {}, not ", other.display())), "{shadowed:?}");
        // krew's link to this program does not count as another program.
        std::fs::remove_file(&other).unwrap();
        std::os::unix::fs::symlink(&here, &other).unwrap();
        assert_eq!(plugin(&here, &path(&[&krew])).level, Level::Ok);
    }

    #[test]
    fn plugin_with_a_longer_name_shadows_a_verb() {
        let folder = tempfile::tempdir().unwrap();
        let env = path(&[folder.path()]);
        assert_eq!(shadows(&env), []);
        let other = program(folder.path(), "kubectl-mc-get");
        std::fs::write(folder.path().join("kubectl-mc-notes.txt"), "").unwrap();
        let found = shadows(&env);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].message, format!("`kubectl mc get` runs {}", other.display()));
    }

    #[test]
    fn missing_completion_is_no_warning() {
        let folder = tempfile::tempdir().unwrap();
        let env = path(&[folder.path()]);
        let missing = completion(&env);
        assert_eq!(
            (missing.level, missing.fix),
            (Level::Skipped, Some("kubectl mc completion install".into()))
        );
        let installed = program(folder.path(), "kubectl_complete-mc");
        assert_eq!(completion(&env), Finding::ok("completion", installed.display().to_string()));
    }

    #[test]
    fn old_kubectl_is_a_warning() {
        let level = |version: &str| kubectl(Path::new("/kubectl"), Some(version)).level;
        assert_eq!(level("v1.29.9"), Level::Warning);
        assert_eq!(level("v1.30.0"), Level::Ok);
        assert_eq!(level("v1.36.3+k3s1"), Level::Ok);
        assert_eq!(kubectl(Path::new("/kubectl"), None).level, Level::Problem);
    }

    #[test]
    fn configuration_with_an_unknown_key_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let env: Env = [(env::XDG_CONFIG_HOME, folder.path())].into_iter().collect();
        assert_eq!(configuration(&env).level, Level::Ok);
        std::fs::create_dir(folder.path().join("kubectl-mc")).unwrap();
        let file = folder.path().join("kubectl-mc/config.yaml");
        std::fs::write(&file, "sets: {}\n").unwrap();
        assert_eq!(configuration(&env), Finding::ok("configuration", file.display().to_string()));
        std::fs::write(&file, "setz: {}\n").unwrap();
        assert_eq!(configuration(&env).level, Level::Problem);
    }
}
