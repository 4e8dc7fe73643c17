//! Reads and enforces the user's policy for credential plugins (`credentialPluginPolicy` of a
//! kuberc), with the rules of kubectl 1.35 and later. A file that cannot be understood permits no
//! plugin.

mod parse;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};

use self::parse::{Entry, Rule};
use crate::argv::Scanned;
use crate::env::{self, Env};
use crate::error::Failure;
use crate::executable::look_path;

/// The file that runs for the credential plugin of a user, if there is one. It is an error if the policy does
/// not permit the plugin.
pub(crate) fn permitted(
    user: &str,
    command: &str,
    scanned: &Scanned,
    env: &Env,
) -> Result<io::Result<PathBuf>, Failure> {
    let command = clean(Path::new(command));
    let found = look_path(command.as_os_str(), env);
    if let Some(policy) = Policy::load(scanned, env)? {
        policy.check(user, &command, found.as_deref(), env)?;
    }
    Ok(found)
}

/// A policy that does not permit every plugin.
#[derive(Debug, PartialEq)]
struct Policy {
    file: PathBuf,
    rule: Rule,
}

impl Policy {
    /// The policy for a command line of kubectl; `None` permits every plugin.
    fn load(scanned: &Scanned, env: &Env) -> Result<Option<Self>, Failure> {
        let Some((file, is_explicit)) = file(scanned, env)? else { return Ok(None) };
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_explicit => return Ok(None),
            Err(error) => return Err(unreadable(&file).because(&error)),
        };
        match parse::rule(&text) {
            Ok(rule) => Ok(rule.map(|rule| Self { file, rule })),
            Err(reason) => Err(Failure::new(format!("{}: {reason}", unreadable(&file)))),
        }
    }

    /// Refuses a plugin that the policy does not permit. `program` is the file that runs for `command`.
    fn check(
        &self,
        user: &str,
        command: &Path,
        program: Result<&Path, &io::Error>,
        env: &Env,
    ) -> Result<(), Failure> {
        let file = self.file.display();
        let denied = |why: String| Failure::new(format!("getting credentials of user {user:?}: {why}"));
        let Rule::Allowlist(entries) = &self.rule else {
            return Err(denied(format!(
                "plugin {command:?} not allowed: policy set to \"DenyAll\" in {file}"
            ))
            .with_hint("the file permits plugins by credentialPluginPolicy"));
        };
        let lists = |path: &Path| entries.iter().any(|entry| Path::new(entry.command()) == path);
        if lists(command) {
            return Ok(());
        }
        let path = match program {
            Ok(program) => program.to_owned(),
            Err(error) => {
                return Err(denied(format!(
                    "plugin path {command:?} cannot be resolved for credential plugin allowlist check in {file}: {error}"
                ))
                .with_hint(BY_ALLOWLIST));
            }
        };
        let finds = |entry: &Entry| {
            let is_named_alike = Path::new(entry.command()).file_name() == path.file_name();
            is_named_alike && look_path(OsStr::new(entry.command()), env).is_ok_and(|found| found == path)
        };
        if lists(&path) || entries.iter().any(finds) {
            return Ok(());
        }
        Err(denied(format!(
            "plugin path {path:?} is not permitted by the credential plugin allowlist in {file}"
        ))
        .with_hint(BY_ALLOWLIST))
    }
}

/// A kuberc with the user's policy and without other preferences; `None` if kubectl needs none.
pub(crate) fn without_preferences(scanned: &Scanned, env: &Env) -> Option<Vec<u8>> {
    let rule = match Policy::load(scanned, env) {
        Ok(policy) => policy.map(|policy| policy.rule),
        Err(_) => Some(Rule::DenyAll),
    };
    if rule.is_none() && scanned.value("kuberc").is_none() {
        return None;
    }
    let mut kuberc = json!({"apiVersion": parse::VERSION, "kind": parse::KIND});
    if let Some(rule) = rule {
        kuberc[parse::POLICY] = rule.name().into();
        if let Rule::Allowlist(entries) = rule {
            kuberc[parse::ALLOWLIST] = entries.iter().map(Entry::json).collect();
        }
    }
    Some(kuberc.to_string().into_bytes())
}

/// The user's kuberc, which need not exist.
pub(crate) fn kuberc(scanned: &Scanned, env: &Env) -> Option<PathBuf> {
    file(scanned, env).ok()?.map(|(file, _)| file)
}

/// The user's kuberc and its first preferences; `None` if kubectl would read none.
pub(crate) fn preferences(scanned: &Scanned, env: &Env) -> Option<(PathBuf, Map<String, Value>)> {
    let file = kuberc(scanned, env)?;
    let preferences = parse::preferences(&fs::read_to_string(&file).ok()?).ok()??;
    Some((file, preferences))
}

fn unreadable(file: &Path) -> Failure {
    Failure::new(format!("cannot read the policy for credential plugins in {}", file.display()))
}

const BY_ALLOWLIST: &str = "the file permits plugins by credentialPluginAllowlist";

/// The kuberc that kubectl reads, and whether the user has named it.
fn file(scanned: &Scanned, env: &Env) -> Result<Option<(PathBuf, bool)>, Failure> {
    if env.var(env::KUBECTL_KUBERC).is_some_and(|on| on.eq_ignore_ascii_case("false")) {
        return Ok(None);
    }
    let flag = scanned.values("kuberc").next().filter(|file| !file.is_empty());
    let variable = env.var(env::KUBERC);
    if variable.is_some_and(|variable| variable == "off") {
        return match flag {
            Some(_) => Err(Failure::new(
                "disabling kuberc via KUBERC=off and passing kuberc flag are mutually exclusive",
            )),
            None => Ok(None),
        };
    }
    if let Some(file) = flag.or(variable) {
        return Ok(Some((file.into(), true)));
    }
    Ok(env.home().map(|home| (home.join(".kube").join("kuberc"), false)))
}

/// Go's `filepath.Clean`.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match (component, clean.components().next_back()) {
            (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir)) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => _ = clean.pop(),
            (component, _) => clean.push(component),
        }
    }
    if clean.as_os_str().is_empty() { ".".into() } else { clean }
}

#[cfg(test)]
mod tests;
