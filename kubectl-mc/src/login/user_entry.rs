//! Writes the kubeconfig user that runs the credential plugin. The host's context, and the contexts of
//! members that `kubectl mc kubeconfig --merge` wrote, reference it; it records their previous user for
//! `logout`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, ExecConfig};
use serde_json::{Value, json};

use super::binding::Binding;
use super::source::{PROGRAM, Source};
use crate::cluster::context::ClusterContext;
use crate::env::{self, Env};
use crate::error::{CommandLine, Explain, Hint};
use crate::exit::ExitStatus;
use crate::kubeconfig::Mark;
use crate::kubeconfig::edit::{EditError, Section, UserFile, list};
use crate::next_command::{masked, quoted};

/// The name of the plugin's extension of the user.
const EXTENSION: &str = "kubectl-mc.dev/login";

/// The current user of the host's context.
pub(super) fn current(host: &ClusterContext) -> Option<&AuthInfo> {
    let name = host.user_name()?;
    let mut entries = host.kubeconfig.auth_infos.iter().filter(|entry| entry.name == name);
    entries.find_map(|entry| entry.auth_info.as_ref())
}

/// The credential plugin of that user.
pub(super) fn exec(host: &ClusterContext) -> Option<&ExecConfig> {
    current(host)?.exec.as_ref()
}

/// The name of the host's login: the name of the current one, or else of the context.
pub(super) fn login(host: &ClusterContext) -> String {
    let present = exec(host).and_then(Source::of_user).map(|(name, _)| name);
    present.or_else(|| host.context.clone()).unwrap_or_default()
}

/// The data that a wrapped credential plugin needs in addition to its command.
pub(super) struct Wrapped {
    pub(super) api_version: Option<String>,
    pub(super) variables: Vec<(String, String)>,
}

impl Wrapped {
    pub(super) fn of(exec: &ExecConfig) -> Self {
        let text = |variable: &HashMap<String, String>, key: &str| variable.get(key).cloned();
        let variables = exec.env.iter().flatten();
        let variables =
            variables.filter_map(|variable| Some((text(variable, "name")?, text(variable, "value")?)));
        // The request is set for each run.
        let variables = variables.filter(|(name, _)| name != env::KUBERNETES_EXEC_INFO).collect();
        Self { api_version: exec.api_version.clone(), variables }
    }
}

/// Writes the user and makes contexts reference it. Returns the file.
pub(super) fn write(
    host: &ClusterContext,
    source: &Source,
    binding: &Binding,
    api_version: Option<String>,
    env: &Env,
) -> Result<PathBuf, UserEntryError> {
    let file = UserFile::open(host, env)?;
    let name = name(binding.name());
    let used = context(file.content(), host).and_then(|context| context["context"]["user"].as_str());
    let users = list(file.content(), "users");
    let old = users.iter().position(|user| user["name"] == name.as_str());
    let mark = old.and_then(|at| mark(&users[at]));
    let previous = match (old, mark) {
        (Some(_), None) => return Err(UserEntryError::Foreign { name, file: file.path().to_owned() }),
        // A second login keeps the user that the first one recorded.
        (_, Some(mark)) if used == Some(&name) => mark["user"].clone(),
        _ => used.map_or(Value::Null, Value::from),
    };
    let mut entry = json!({"name": name, "user": {
        "exec": {
            "apiVersion": API_VERSION,
            "command": program(env),
            "args": source.arguments(binding),
            "interactiveMode": "IfAvailable",
            "provideClusterInfo": true,
            "installHint": INSTALL_HINT,
        },
        "extensions": [{"name": EXTENSION, "extension": {"user": previous}}],
    }});
    if let Some(version) = api_version {
        entry["user"]["exec"]["apiVersion"] = version.into();
    }
    let mut changed = Section::of(file.content(), "users");
    let exec = entry["user"]["exec"].clone();
    match old {
        Some(at) if users[at] == entry => {}
        Some(at) => changed.changed.push((at, Some(entry))),
        None => changed.added.push(entry),
    }
    let contexts = contexts_with_user(file.content(), host, used, &name.clone().into());
    match file.write(&[changed, contexts]) {
        Err(source @ EditError::Unsupported { .. }) => {
            let commands = by_kubectl(host, &name, &exec);
            Err(UserEntryError::ByHand { source, commands })
        }
        written => Ok(written.map(|()| file.path().to_owned())?),
    }
}

/// The kubectl commands with the same effect, for layouts that the plugin does not edit: kubectl rewrites the
/// whole file.
fn by_kubectl(host: &ClusterContext, name: &str, exec: &Value) -> String {
    let text = |value: &Value| quoted(OsStr::new(value.as_str().unwrap_or_default()));
    let name = quoted(OsStr::new(name));
    let words = exec["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let words = masked(words.map(Cow::from)).map(|word| format!(" --exec-arg={}", quoted(word.as_ref())));
    let kubectl = host.kubectl();
    let context = quoted(OsStr::new(host.context.as_deref().unwrap_or_default()));
    format!(
        "{kubectl} config set-credentials {name} --exec-api-version={} --exec-command={}{} --exec-provide-cluster-info \
         --exec-interactive-mode=IfAvailable && {kubectl} config set-context {context} --user={name}",
        text(&exec["apiVersion"]),
        text(&exec["command"]),
        words.collect::<String>()
    )
}

/// The effect of logout on the kubeconfig.
#[derive(Debug, PartialEq)]
pub(super) enum Removed {
    /// The contexts have their previous user again, if there was one.
    Restored(Option<String>),
    /// The contexts have a user that login did not write.
    Kept,
}

/// Restores the previous user of the contexts, and removes the plugin's user.
pub(super) fn remove(host: &ClusterContext, env: &Env) -> Result<Removed, UserEntryError> {
    let file = UserFile::open(host, env)?;
    let name = name(&login(host));
    let users = list(file.content(), "users");
    let Some(at) = users.iter().position(|user| user["name"] == name.as_str()) else {
        return Ok(Removed::Kept);
    };
    let Some(mark) = mark(&users[at]) else { return Ok(Removed::Kept) };
    let mut changed = Section::of(file.content(), "users");
    changed.changed.push((at, None));
    let contexts = contexts_with_user(file.content(), host, Some(&name), &mark["user"]);
    let previous = mark["user"].as_str().map(str::to_owned);
    file.write(&[changed, contexts])?;
    Ok(Removed::Restored(previous))
}

/// Changes the contexts of the host and its members from one user to another; null means no user.
fn contexts_with_user(document: &Value, host: &ClusterContext, from: Option<&str>, to: &Value) -> Section {
    let mut section = Section::of(document, "contexts");
    for (at, entry) in list(document, "contexts").iter().enumerate() {
        let is_host = entry["name"].as_str() == host.context.as_deref();
        let is_member = Mark::find(&entry["context"]).is_some_and(|mark| mark.is_of(host));
        if !(is_host || is_member) || entry["context"]["user"].as_str() != from {
            continue;
        }
        let mut entry = entry.clone();
        let Some(context) = entry["context"].as_object_mut() else { continue };
        match to {
            Value::Null => context.remove("user"),
            user => context.insert("user".to_owned(), user.clone()),
        };
        section.changed.push((at, Some(entry)));
    }
    section
}

fn context<'a>(document: &'a Value, host: &ClusterContext) -> Option<&'a Value> {
    list(document, "contexts").iter().find(|entry| entry["name"].as_str() == host.context.as_deref())
}

/// The data that `login` recorded in the user.
fn mark(user: &Value) -> Option<&Value> {
    let extensions = user["user"]["extensions"].as_array()?;
    extensions.iter().find(|extension| extension["name"] == EXTENSION)?.get("extension")
}

fn name(login: &str) -> String {
    format!("{PROGRAM}/{login}")
}

/// The name of this program if `PATH` finds it, or else its path.
fn program(env: &Env) -> String {
    let Ok(own) = std::env::current_exe() else { return PROGRAM.to_owned() };
    let file = format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX);
    let found = std::env::split_paths(env.var(env::PATH).unwrap_or_default())
        .map(|folder| folder.join(&file))
        .find(|file| file.is_file());
    let real = |file: &Path| file.canonicalize().ok();
    if found.is_some_and(|found| real(&found) == real(&own)) {
        return PROGRAM.to_owned();
    }
    own.display().to_string()
}

const API_VERSION: &str = "client.authentication.k8s.io/v1";
const INSTALL_HINT: &str =
    "kubectl-mc is not installed on this machine: https://github.com/kubectl-mc/kubectl-mc";

#[derive(Debug, thiserror::Error)]
pub(super) enum UserEntryError {
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The credential was stored, but the kubeconfig was not changed.
    #[error("{source}")]
    ByHand { source: EditError, commands: String },
    #[error("{} has a user {name:?} that `kubectl mc login` did not write", file.display())]
    Foreign { name: String, file: PathBuf },
}

impl Explain for UserEntryError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Edit(error) => error.hint(),
            Self::ByHand { commands, .. } => {
                let secrets = if commands.contains("***") { ", with your values for ***" } else { "" };
                let text = format!("the credential is stored; kubectl writes the kubeconfig anew{secrets}");
                Some(CommandLine::new(commands.as_str()).after(text))
            }
            Self::Foreign { .. } => Some("rename that user in the file".into()),
        }
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}

#[cfg(test)]
mod tests;
