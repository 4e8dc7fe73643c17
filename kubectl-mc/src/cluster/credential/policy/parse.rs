//! Parses the policy of a kuberc. Only these two fields are read, so that later versions of the file work.
//! An unknown field about credential plugins is an error: it may restrict them further.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::clean;

/// The plugins that a policy permits.
#[derive(Debug, PartialEq)]
pub(super) enum Rule {
    DenyAll,
    Allowlist(Vec<Entry>),
}

impl Rule {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::DenyAll => "DenyAll",
            Self::Allowlist(_) => "Allowlist",
        }
    }
}

/// A permitted plugin: a name in `PATH`, or a path.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    /// `command`, or `name` as in kubectl 1.35.
    field: &'static str,
    command: String,
}

impl Entry {
    pub(super) fn command(&self) -> &str {
        &self.command
    }

    /// The entry as the user wrote it, because kubectl 1.35 does not know `command`.
    pub(super) fn json(&self) -> Value {
        json!({self.field: self.command})
    }
}

/// The rule in the first preferences of the file; `None` permits every plugin.
pub(super) fn rule(text: &str) -> Result<Option<Rule>, String> {
    preferences(text)?.as_ref().map_or(Ok(None), of_preferences)
}

/// The first preferences of the file; `None` of an empty file.
pub(super) fn preferences(text: &str) -> Result<Option<Map<String, Value>>, String> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| error.without_snippet().to_string())?;
    let documents: Vec<_> = documents.iter().filter(|document| !document.is_null()).collect();
    let mut preferences = documents.iter().filter_map(|document| document.as_object());
    match preferences.find(|object| is_preference(object)) {
        Some(preferences) => Ok(Some(preferences.clone())),
        None if documents.is_empty() => Ok(None),
        None => Err("no valid preferences found".to_owned()),
    }
}

fn is_preference(object: &Map<String, Value>) -> bool {
    let group = object.get("apiVersion").and_then(Value::as_str).and_then(|version| version.split_once('/'));
    group.is_some_and(|(group, _)| group == GROUP) && object.get("kind").is_some_and(|kind| kind == KIND)
}

fn of_preferences(preferences: &Map<String, Value>) -> Result<Option<Rule>, String> {
    let is_about_plugins = |field: &&String| field.to_lowercase().starts_with("credentialplugin");
    let mut fields = preferences.keys().filter(is_about_plugins);
    if let Some(unknown) = fields.find(|field| ![POLICY, ALLOWLIST].contains(&field.as_str())) {
        return Err(format!("unknown field {unknown:?}"));
    }
    let list = preferences.get(ALLOWLIST).filter(|list| !list.is_null());
    let policy = preferences.get(POLICY).filter(|policy| !policy.is_null());
    match policy.map(Value::as_str) {
        None | Some(Some("" | "AllowAll" | "DenyAll")) if list.is_some() => {
            let policy = policy.and_then(Value::as_str).unwrap_or_default();
            Err(format!("plugin policy is {policy:?} but allowlist is non-nil"))
        }
        None | Some(Some("" | "AllowAll")) => Ok(None),
        Some(Some("DenyAll")) => Ok(Some(Rule::DenyAll)),
        Some(Some("Allowlist")) => match list {
            Some(list) => allowlist(list).map(|entries| Some(Rule::Allowlist(entries))),
            None => {
                Err("credential plugin policy set to \"Allowlist\", but allowlist is unspecified".to_owned())
            }
        },
        Some(_) => Err(format!("unknown plugin policy: {}", preferences[POLICY])),
    }
}

fn allowlist(list: &Value) -> Result<Vec<Entry>, String> {
    let list = list.as_array().ok_or("credentialPluginAllowlist is not a list")?;
    if list.is_empty() {
        return Err("credential plugin policy set to \"Allowlist\", but allowlist is empty; use \"DenyAll\" policy instead".to_owned());
    }
    list.iter().enumerate().map(|(at, item)| entry(item, at + 1)).collect()
}

fn entry(item: &Value, number: usize) -> Result<Entry, String> {
    let item = item.as_object().ok_or_else(|| format!("allowlist entry #{number} is not an object"))?;
    if let Some(unknown) = item.keys().find(|field| !FIELDS.contains(&field.as_str())) {
        return Err(format!("allowlist entry #{number} has the unknown field {unknown:?}"));
    }
    let text = |field: &str| match item.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(format!("{field} of allowlist entry #{number} is not a string")),
    };
    let [command, name] = FIELDS.map(text);
    let (command, name) = (command?, name?);
    let (field, command) = match (command, name) {
        ("", "") => return Err(format!("empty allowlist entry #{number}")),
        ("", name) => ("name", name),
        (command, name) if name.is_empty() || name == command => ("command", command),
        _ => return Err(format!("allowlist entry #{number} has a name and a different command")),
    };
    let cleaned = clean(Path::new(command));
    if cleaned.as_os_str() != command {
        return Err(format!("non-normalized file path: {command:?} vs {cleaned:?}"));
    }
    Ok(Entry { field, command: command.to_owned() })
}

const GROUP: &str = "kubectl.config.k8s.io";
/// The version that has the fields.
pub(super) const VERSION: &str = "kubectl.config.k8s.io/v1beta1";
pub(super) const KIND: &str = "Preference";
pub(super) const POLICY: &str = "credentialPluginPolicy";
pub(super) const ALLOWLIST: &str = "credentialPluginAllowlist";
const FIELDS: [&str; 2] = ["command", "name"];
