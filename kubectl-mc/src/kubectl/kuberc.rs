//! Reads the aliases and defaults of a kuberc with kubectl's rules (`pkg/kuberc`): an alias stands
//! for a command with more arguments, and options that the user did not give get the file's
//! defaults.
//!
//! kubectl applies both itself. On several clusters the plugin has to know the command behind an
//! alias, and runs kubectl without defaults if it parses the output.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::argv::{self, Scanned};
use crate::cluster::credential;
use crate::env::Env;

/// The user's aliases and defaults.
pub(crate) struct Kuberc {
    file: PathBuf,
    preferences: Map<String, Value>,
}

impl Kuberc {
    /// The file of a command line; `None` if there is none that kubectl can read.
    pub(crate) fn load(scanned: &Scanned, env: &Env) -> Option<Self> {
        let (file, preferences) = credential::preferences(scanned, env)?;
        Some(Self { file, preferences })
    }

    /// The command for which the alias in the place of the verb stands.
    pub(crate) fn expanded(&self, scanned: &Scanned) -> Option<Scanned> {
        let verb = scanned.verb()?.to_str()?;
        // kubectl treats a word after a flag as a plugin.
        if argv::is_builtin(verb) || scanned.kubectl.first()? != verb {
            return None;
        }
        let alias = list(&self.preferences, &["aliases"]).find(|alias| alias["name"] == *verb)?;
        let command = alias["command"].as_str()?.split_whitespace();
        if !command.clone().next().is_some_and(argv::is_builtin) {
            return None;
        }
        let options = options(alias).filter(|(name, _)| !scanned.has(name));
        let options = options.map(|(name, value)| format!("--{name}={value}"));
        let before = command.map(str::to_owned).chain(options).chain(words(alias, "prependArgs"));
        let given = scanned.kubectl.iter().skip(1).cloned();
        let after = words(alias, "appendArgs").map(OsString::from);
        let mut expanded = argv::scan(before.map(OsString::from).chain(given).chain(after).collect());
        // Words from a file must not choose a cluster.
        expanded.own.is_empty().then(|| {
            expanded.own.clone_from(&scanned.own);
            expanded
        })
    }

    /// A line for each default of the command that the user did not give.
    pub(crate) fn dropped(&self, scanned: &Scanned) -> Vec<String> {
        let words: Vec<_> = scanned.words_after_verb().map(|(_, word)| word).collect();
        let is_of = |entry: &&Value| {
            let mut command = entry["command"].as_str().unwrap_or_default().split_whitespace();
            let is_verb = command.next().map(OsStr::new) == scanned.verb();
            is_verb && command.zip(words.iter().copied()).all(|(part, word)| OsStr::new(part) == word)
        };
        let entries = list(&self.preferences, &["defaults", "overrides"]).filter(is_of);
        let options = entries.flat_map(options).filter(|(name, _)| !scanned.has(name));
        let line = |(name, value): (&str, &str)| {
            format!("--{name}={value} of {} does not apply", self.file.display())
        };
        options.map(line).collect()
    }
}

/// The command itself, or the one that its alias stands for.
pub(crate) fn meant<'a>(scanned: &'a Scanned, env: &Env) -> Cow<'a, Scanned> {
    let is_verb = scanned.verb().and_then(OsStr::to_str).is_some_and(argv::is_builtin);
    let expanded = (!is_verb && scanned.verb_is_builtin())
        .then(|| Kuberc::load(scanned, env).and_then(|kuberc| kuberc.expanded(scanned)));
    expanded.flatten().map_or(Cow::Borrowed(scanned), Cow::Owned)
}

/// The entries of the first list that the file has. `overrides` and `flags` are the names in v1alpha1.
fn list<'a>(object: &'a Map<String, Value>, names: &[&str]) -> impl Iterator<Item = &'a Value> {
    let found = names.iter().find_map(|name| object.get(*name)?.as_array());
    found.into_iter().flatten()
}

fn options(entry: &Value) -> impl Iterator<Item = (&str, &str)> {
    let options = entry.as_object().map(|entry| list(entry, &["options", "flags"]));
    options
        .into_iter()
        .flatten()
        .filter_map(|option| Some((option["name"].as_str()?, option["default"].as_str()?)))
}

fn words<'a>(alias: &'a Value, name: &str) -> impl Iterator<Item = String> + use<'a> {
    alias[name].as_array().into_iter().flatten().filter_map(|word| Some(word.as_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kuberc(text: &str) -> Kuberc {
        let preferences = serde_saphyr::from_str::<Value>(text).unwrap();
        Kuberc { file: "kuberc".into(), preferences: preferences.as_object().unwrap().clone() }
    }

    fn scan(line: &str) -> Scanned {
        argv::scan(line.split_whitespace().map(Into::into).collect())
    }

    #[test]
    fn alias_is_expanded_as_kubectl_does() {
        let kuberc = kuberc(
            "aliases:\n- {name: getn, command: get, prependArgs: [nodes], options: [{name: output, default: wide}]}\n\
             - {name: cm, command: create configmap, appendArgs: [--from-literal=a=b]}\n\
             - {name: old, command: get, flags: [{name: output, default: json}]}\n\
             - {name: get, command: delete}\n- {name: sly, command: get, prependArgs: [-C, m2]}\n\
             - {name: other, command: my-plugin}\n",
        );
        for (line, expected) in [
            ("getn -l a=b", Some("get --output=wide nodes -l a=b")),
            ("getn -o name", Some("get nodes -o name")),
            ("cm x --dry-run=client", Some("create configmap x --dry-run=client --from-literal=a=b")),
            ("old pods", Some("get --output=json pods")),
            ("get pods", None),
            ("sly pods", None),
            ("other pods", None),
            ("unknown pods", None),
            ("-n x getn", None),
        ] {
            let expanded = kuberc.expanded(&scan(line));
            let words = expanded.map(|expanded| {
                expanded.kubectl.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(words.as_deref(), expected, "{line}");
        }
        let expanded = kuberc.expanded(&scan("-C m1,m2 getn")).unwrap();
        assert_eq!(expanded.own, ["-C", "m1,m2"]);
    }

    #[test]
    fn dropped_defaults_are_those_of_the_command() {
        let kuberc = kuberc(
            "defaults:\n- {command: get, options: [{name: output, default: wide}, {name: show-labels, default: 'true'}]}\n\
             - {command: top pod, options: [{name: containers, default: 'true'}]}\n",
        );
        let dropped = |line: &str| kuberc.dropped(&scan(line)).join("; ");
        assert_eq!(
            dropped("get pods"),
            "--output=wide of kuberc does not apply; --show-labels=true of kuberc does not apply"
        );
        assert_eq!(dropped("get pods -o json"), "--show-labels=true of kuberc does not apply");
        assert_eq!(dropped("top pod"), "--containers=true of kuberc does not apply");
        assert_eq!(dropped("top node") + &dropped("logs x"), "");
    }
}
