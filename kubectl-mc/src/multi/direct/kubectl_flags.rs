//! Parses the flags of a kubectl command strictly. A command with an unknown flag is left to kubectl.

use std::ffi::OsStr;

use crate::argv::{Scanned, parse_bool};

/// The known flags of a verb.
pub(super) struct Grammar<'a> {
    /// Flags with a value.
    pub(super) values: &'a [&'static str],
    /// Boolean flags.
    pub(super) switches: &'a [&'static str],
}

impl Grammar<'_> {
    /// The first word with a flag that is unknown, lacks its value or is misplaced.
    pub(super) fn unknown<'s>(&self, scanned: &'s Scanned) -> Option<&'s OsStr> {
        let is_known = |name: &str, value: Option<&OsStr>| {
            if GLOBAL.contains(&name) || self.values.contains(&name) {
                value.is_some()
            } else {
                let is_switch = GLOBAL_SWITCHES.contains(&name) || self.switches.contains(&name);
                is_switch && value.is_none_or(|value| value.to_str().and_then(parse_bool).is_some())
            }
        };
        // Before the verb, kubectl only accepts its global flags.
        let is_placed = |name: &str| {
            !(self.values.contains(&name) || self.switches.contains(&name)) || !scanned.is_before_verb(name)
        };
        let mut words = scanned.flag_words();
        let (_, word, _) = words.find(|(name, _, value)| !is_known(name, *value) || !is_placed(name))?;
        Some(word)
    }
}

/// The arguments of a command with only known flags.
#[derive(Debug)]
pub(super) struct Words<'a> {
    pub(super) arguments: Vec<String>,
    scanned: &'a Scanned,
}

impl<'a> Words<'a> {
    /// Parses the arguments of one kubectl command. `None` if anything is unknown.
    pub(super) fn read(scanned: &'a Scanned, verb: &str, grammar: &Grammar<'_>) -> Option<Self> {
        let is_text = scanned.kubectl.iter().all(|word| word.to_str().is_some());
        let is_read = scanned.verb()? == verb && is_text && grammar.unknown(scanned).is_none();
        let words = scanned.words_after_verb().map(|(_, word)| word).chain(scanned.words_after_dashes());
        let arguments = words.map(|word| word.to_string_lossy().into_owned()).collect();
        is_read.then_some(Self { arguments, scanned })
    }

    /// The same for a verb of two adjacent words: kubectl parses `auth -A can-i` differently.
    pub(super) fn read_two(
        scanned: &'a Scanned,
        verb: &str,
        second: &[&str],
        grammar: &Grammar<'_>,
    ) -> Option<Self> {
        let (at, word) = scanned.words_after_verb().next()?;
        let is_next = scanned.kubectl[at - 1] == verb && second.iter().any(|second| word == *second);
        let mut words = Self::read(scanned, verb, grammar).filter(|_| is_next)?;
        words.arguments.remove(0);
        Some(words)
    }

    /// The value of a flag; the last one wins.
    pub(super) fn value(&self, name: &str) -> Option<&'a str> {
        self.values(name).last()
    }

    /// The non-empty value of a flag. For most flags of kubectl, an empty value means absence.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.value(name).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// The values of a repeatable flag.
    pub(super) fn values(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.scanned.values(name).filter_map(OsStr::to_str)
    }

    /// Whether a flag is present, with any value.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.scanned.flags().any(|(flag, _)| flag == name)
    }

    /// Whether a switch is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.scanned.has(name)
    }
}

/// The global flags of kubectl that the plugin's client supports ([`crate::cluster::client`]), and the
/// namespace.
#[rustfmt::skip]
const GLOBAL: &[&str] = &[
    "namespace", "as", "as-group", "as-uid", "as-user-extra", "certificate-authority", "client-certificate",
    "client-key", "tls-server-name", "token", "user", "v",
];
const GLOBAL_SWITCHES: &[&str] = &["insecure-skip-tls-verify"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argv;

    const GRAMMAR: Grammar =
        Grammar { values: &["output", "selector"], switches: &["all-namespaces", "watch"] };

    fn scan(words: &[&str]) -> Scanned {
        argv::scan(words.iter().map(Into::into).collect())
    }

    #[test]
    fn every_form_of_a_flag_is_parsed() {
        for words in [
            &["get", "-Aw", "-o", "wide", "pods", "-la=b"][..],
            &["get", "pods", "--all-namespaces=true", "--watch", "--output=wide", "--selector", "a=b"],
            &["get", "--output", "json", "-owide", "-l=a=b", "-A=1", "-w", "--", "pods"],
        ] {
            let scanned = scan(words);
            let read = Words::read(&scanned, "get", &GRAMMAR).unwrap();
            assert_eq!(read.arguments, ["pods"], "{words:?}");
            assert_eq!(read.value("output"), Some("wide"), "{words:?}");
            assert_eq!(read.value("selector"), Some("a=b"), "{words:?}");
            assert!(read.is_on("all-namespaces") && read.is_on("watch"), "{words:?}");
        }
    }

    #[test]
    fn unknown_flags_are_left_to_kubectl() {
        for words in [
            &["get", "pods", "--sort-by=.metadata.name"][..],
            &["get", "pods", "-x"],
            &["get", "pods", "-Ax"],
            &["get", "pods", "-o"],
            &["get", "pods", "-A=maybe"],
            &["describe", "pods"],
            &["-o", "wide", "get", "pods"],
            &["get", "pods", "--request-timeout=3s"],
            &["pods"],
            &[],
        ] {
            assert!(Words::read(&scan(words), "get", &GRAMMAR).is_none(), "{words:?}");
        }
        assert!(Words::read(&scan(&["-n", "x", "get", "pods", "--as=jane"]), "get", &GRAMMAR).is_some());
    }
}
