//! Renders the commands of hints with the given flags, so that a copied command addresses the same host.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The flags to repeat in the commands of a hint, quoted for a shell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GivenFlags {
    context: String,
    kubeconfig: String,
    /// For the plugin's own commands.
    hub: String,
    dirs: String,
    member: String,
}

impl GivenFlags {
    /// The flags that address a cluster of a kubeconfig.
    pub(crate) fn new(context: Option<&str>, kubeconfig: Option<&Path>) -> Self {
        Self {
            context: flag("context", context.map(OsStr::new)),
            kubeconfig: flag("kubeconfig", kubeconfig.map(Path::as_os_str)),
            hub: String::new(),
            dirs: String::new(),
            member: String::new(),
        }
    }

    /// The same flags for contexts of these folders.
    pub(crate) fn with_dirs(self, dirs: &[PathBuf]) -> Self {
        let dirs = dirs.iter().map(|dir| flag("kubeconfig-dir", Some(dir.as_os_str()))).collect();
        Self { dirs, ..self }
    }

    /// The same flags for a host with this hub.
    pub(crate) fn with_hub(self, hub: Option<&str>) -> Self {
        Self { hub: flag("hub", hub.map(OsStr::new)), ..self }
    }

    /// Reads the flags from these words.
    pub(crate) fn of_words(words: &[OsString]) -> Self {
        let flag = |name: &str| flag(name, last_value(words, name).as_deref());
        Self {
            context: flag("context"),
            kubeconfig: flag("kubeconfig"),
            hub: flag("hub"),
            dirs: values(words, "kubeconfig-dir")
                .map(|dir| self::flag("kubeconfig-dir", Some(&dir)))
                .collect(),
            member: flag("member-context") + &flag("member-kubeconfig"),
        }
    }

    /// `kubectl` with the flags that address the cluster.
    pub(crate) fn kubectl(&self) -> String {
        format!("kubectl{}{}", self.context, self.kubeconfig)
    }

    /// `kubectl mc` with the flags that address the host.
    pub(crate) fn kubectl_mc(&self) -> String {
        format!("kubectl mc{}{}{}{}", self.context, self.kubeconfig, self.dirs, self.hub)
    }

    /// The command with the flags, unless it already names a host.
    pub(crate) fn command(&self, command: &str) -> String {
        let is_addressed = ["--context", "--kubeconfig", "--hub"].iter().any(|flag| command.contains(flag));
        let has_flags = |rest: &str| !is_addressed && rest != "--help";
        match (command.strip_prefix("kubectl mc "), command.strip_prefix("kubectl config ")) {
            (Some(rest), _) if has_flags(rest) => {
                let rest = match self.member.trim_start() {
                    "" => rest.to_owned(),
                    member => rest.replace("--member-context=NAME", member),
                };
                format!("{} {rest}", self.kubectl_mc())
            }
            (_, Some(rest)) if has_flags(rest) => format!("kubectl config{} {rest}", self.kubeconfig),
            _ => command.to_owned(),
        }
    }
}

/// Quotes a word for a shell if necessary.
pub(crate) fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into_owned();
    }
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The words quoted for a shell, with `***` in place of passwords, tokens and other secrets.
pub(crate) fn shown<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> String {
    let words = masked(words.into_iter().map(OsStr::to_string_lossy));
    words.map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// The words with `***` in place of secrets.
pub(crate) fn masked<'a>(words: impl Iterator<Item = Cow<'a, str>>) -> impl Iterator<Item = String> {
    // How to mask the next word, after a flag without `=`.
    let mut next: Option<Secret> = None;
    words.map(move |word| match (next.take(), word.split_once('=')) {
        (Some(secret), _) => secret.masked(&word),
        (None, Some((flag, value))) => match Secret::of_flag(flag) {
            Some(secret) => format!("{flag}={}", secret.masked(value)),
            None => word.into_owned(),
        },
        (None, None) => {
            next = Secret::of_flag(&word);
            word.into_owned()
        }
    })
}

/// The part of a flag's value that is secret.
#[derive(Clone, Copy)]
enum Secret {
    Value,
    /// The part after `NAME=`.
    OfName,
}

impl Secret {
    fn of_flag(flag: &str) -> Option<Self> {
        let (_, secret) = SECRETS.iter().find(|(known, _)| *known == flag)?;
        Some(*secret)
    }

    fn masked(self, value: &str) -> String {
        match (self, value.split_once('=')) {
            (Self::OfName, Some((name, _))) => format!("{name}=***"),
            _ => "***".to_owned(),
        }
    }
}

const SECRETS: [(&str, Secret); 7] = [
    ("--token", Secret::Value),
    ("--password", Secret::Value),
    ("--docker-password", Secret::Value),
    ("--client-secret", Secret::Value),
    ("--oidc-client-secret", Secret::Value),
    ("--from-literal", Secret::OfName),
    ("--env", Secret::OfName),
];

/// ` --name=value`, quoted; empty without a value.
fn flag(name: &str, value: Option<&OsStr>) -> String {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return String::new() };
    let mut word = OsString::from(format!("--{name}="));
    word.push(value);
    format!(" {}", quoted(&word))
}

/// The value of the last `--name value` or `--name=value`, up to `--`.
fn last_value(words: &[OsString], name: &str) -> Option<OsString> {
    values(words, name).last()
}

/// The values of `--name value` and `--name=value`, up to `--`.
fn values(words: &[OsString], name: &str) -> impl Iterator<Item = OsString> {
    let words = words.split(|word| word == "--").next().unwrap_or_default();
    let is_flag = move |word: &OsString| word.to_str().and_then(|word| word.strip_prefix("--")) == Some(name);
    words.iter().enumerate().filter_map(move |(at, word)| {
        inline(word, name).or_else(|| is_flag(word).then(|| words.get(at + 1).cloned())?)
    })
}

fn inline(word: &OsStr, name: &str) -> Option<OsString> {
    word.to_str()?.strip_prefix("--")?.strip_prefix(name)?.strip_prefix('=').map(OsString::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_a_command_are_not_shown() {
        let shown = |line: &str| shown(line.split(' ').map(OsStr::new));
        for (line, expected) in [
            ("get pods --token=abc", "get pods '--token=***'"),
            ("get pods --token abc -n x", "get pods --token '***' -n x"),
            (
                "create secret docker-registry r --docker-password=p",
                "create secret docker-registry r '--docker-password=***'",
            ),
            (
                "create secret generic s --from-literal=k=v=w",
                "create secret generic s '--from-literal=k=***'",
            ),
            ("create secret generic s --from-literal k=v", "create secret generic s --from-literal 'k=***'"),
            ("get pods --token-file=x -l token=y", "get pods --token-file=x -l token=y"),
        ] {
            assert_eq!(shown(line), expected);
        }
    }

    #[test]
    fn words_are_quoted_when_a_shell_needs_it() {
        for (word, expected) in
            [("pods", "pods"), ("a b", "'a b'"), ("", "''"), ("it's", r"'it'\''s'"), ("-l=a!=b", "'-l=a!=b'")]
        {
            assert_eq!(quoted(OsStr::new(word)), expected);
        }
    }

    #[test]
    fn command_repeats_the_flags_that_were_given() {
        let words =
            ["join", "--context", "my host", "--member-context=m", "--kubeconfig=/f", "--", "--context=x"];
        let given = GivenFlags::of_words(&words.map(OsString::from));
        for (command, expected) in [
            ("kubectl mc clusters", "kubectl mc '--context=my host' --kubeconfig=/f clusters"),
            (
                "kubectl mc unjoin m1 --member-context=NAME",
                "kubectl mc '--context=my host' --kubeconfig=/f unjoin m1 --member-context=m",
            ),
            ("kubectl mc --help", "kubectl mc --help"),
            ("kubectl mc unjoin m1 --context=THAT-HOST", "kubectl mc unjoin m1 --context=THAT-HOST"),
            ("kubectl config get-contexts", "kubectl config --kubeconfig=/f get-contexts"),
            ("kubectl --context=m auth whoami", "kubectl --context=m auth whoami"),
        ] {
            assert_eq!(given.command(command), expected);
            assert_eq!(GivenFlags::default().command(command), command);
        }
    }
}
