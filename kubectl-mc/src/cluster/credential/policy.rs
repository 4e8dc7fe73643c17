//! Reads and keeps the user's policy for credential plugins (`credentialPluginPolicy` of a kuberc), by the
//! rules of kubectl 1.35 and later. A file that cannot be understood permits no plugin.

mod parse;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};

use self::parse::{Entry, Rule};
use crate::argv::Scanned;
use crate::env::{self, Env};
use crate::error::Explain;
use crate::executable::look_path;
use crate::exit::ExitStatus;

/// The file that runs for the credential plugin of a user, if there is one. It is an error if the policy does
/// not permit the plugin.
pub(crate) fn permitted(
    user: &str,
    command: &str,
    scanned: &Scanned,
    env: &Env,
) -> Result<io::Result<PathBuf>, PolicyError> {
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
    fn load(scanned: &Scanned, env: &Env) -> Result<Option<Self>, PolicyError> {
        let Some((file, is_explicit)) = file(scanned, env)? else { return Ok(None) };
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_explicit => return Ok(None),
            Err(source) => return Err(PolicyError::Unread { file, source }),
        };
        match parse::rule(&text) {
            Ok(rule) => Ok(rule.map(|rule| Self { file, rule })),
            Err(reason) => Err(PolicyError::Invalid { file, reason }),
        }
    }

    /// Refuses a plugin that the policy does not permit. `program` is the file that runs for `command`.
    fn check(
        &self,
        user: &str,
        command: &Path,
        program: Result<&Path, &io::Error>,
        env: &Env,
    ) -> Result<(), PolicyError> {
        let (user, file) = (user.to_owned(), self.file.clone());
        let Rule::Allowlist(entries) = &self.rule else {
            return Err(PolicyError::Denied { user, command: command.to_owned(), file });
        };
        let lists = |path: &Path| entries.iter().any(|entry| Path::new(entry.command()) == path);
        if lists(command) {
            return Ok(());
        }
        let path = match program {
            Ok(program) => program.to_owned(),
            Err(error) => {
                let reason = error.to_string();
                return Err(PolicyError::NotFound { user, command: command.to_owned(), reason, file });
            }
        };
        let finds = |entry: &Entry| {
            let is_named_alike = Path::new(entry.command()).file_name() == path.file_name();
            is_named_alike && look_path(OsStr::new(entry.command()), env).is_ok_and(|found| found == path)
        };
        if lists(&path) || entries.iter().any(finds) {
            return Ok(());
        }
        Err(PolicyError::NotListed { user, path, file })
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

/// The kuberc that kubectl reads, and whether the user has named it.
fn file(scanned: &Scanned, env: &Env) -> Result<Option<(PathBuf, bool)>, PolicyError> {
    if env.var(env::KUBECTL_KUBERC).is_some_and(|on| on.eq_ignore_ascii_case("false")) {
        return Ok(None);
    }
    let flag = scanned.values("kuberc").next().filter(|file| !file.is_empty());
    let variable = env.var(env::KUBERC);
    if variable.is_some_and(|variable| variable == "off") {
        return if flag.is_some() { Err(PolicyError::Contradiction) } else { Ok(None) };
    }
    if let Some(file) = flag.or(variable) {
        return Ok(Some((file.into(), true)));
    }
    Ok(env.home().map(|home| (Path::new(home).join(".kube").join("kuberc"), false)))
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

#[derive(Debug, thiserror::Error)]
pub(crate) enum PolicyError {
    #[error(
        "getting credentials of user {user:?}: plugin {command:?} not allowed: policy set to \"DenyAll\" in {}",
        file.display()
    )]
    Denied { user: String, command: PathBuf, file: PathBuf },
    #[error(
        "getting credentials of user {user:?}: plugin path {path:?} is not permitted by the credential plugin allowlist in {}",
        file.display()
    )]
    NotListed { user: String, path: PathBuf, file: PathBuf },
    #[error(
        "getting credentials of user {user:?}: plugin path {command:?} cannot be resolved for credential plugin allowlist check in {}: {reason}",
        file.display()
    )]
    NotFound { user: String, command: PathBuf, reason: String, file: PathBuf },
    #[error("cannot read the policy for credential plugins in {}", file.display())]
    Unread { file: PathBuf, source: io::Error },
    #[error("cannot read the policy for credential plugins in {}: {reason}", file.display())]
    Invalid { file: PathBuf, reason: String },
    #[error("disabling kuberc via KUBERC=off and passing kuberc flag are mutually exclusive")]
    Contradiction,
}

impl Explain for PolicyError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Denied { .. } => Some("the file permits plugins by credentialPluginPolicy".to_owned()),
            Self::NotListed { .. } | Self::NotFound { .. } => {
                Some("the file permits plugins by credentialPluginAllowlist".to_owned())
            }
            Self::Unread { .. } | Self::Invalid { .. } | Self::Contradiction => None,
        }
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Failed
    }
}

#[cfg(test)]
mod tests;
