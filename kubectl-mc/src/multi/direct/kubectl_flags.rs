//! Reads the words of a kubectl command as pflag does. An unknown flag makes the command unknown, so that kubectl
//! runs it.

use std::ffi::OsString;

/// What a verb's flags are.
pub(super) struct Grammar {
    /// Flags that take a value: the letter (a space for none) and the long name.
    pub(super) values: &'static [(char, &'static str)],
    /// Flags that are on or off.
    pub(super) switches: &'static [(char, &'static str)],
}

/// The words behind a verb, taken apart.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Words {
    pub(super) arguments: Vec<String>,
    flags: Vec<(&'static str, String)>,
}

impl Words {
    /// Reads the words of one run of kubectl, verb included. `None` when anything is not known.
    pub(super) fn read(words: &[OsString], verb: &str, grammar: &Grammar) -> Option<Self> {
        let mut read = Self::default();
        let mut rest = words.iter().map(|word| word.to_str());
        let mut seen_verb = false;
        while let Some(word) = rest.next() {
            let word = word?;
            if word == "--" {
                for word in rest.by_ref() {
                    read.arguments.push(word?.to_owned());
                }
            } else if let Some(long) = word.strip_prefix("--") {
                read.long(long, grammar, &mut rest)?;
            } else if word.len() > 1 && word.starts_with('-') {
                read.short(&word[1..], grammar, &mut rest)?;
            } else if seen_verb {
                read.arguments.push(word.to_owned());
            } else if word == verb {
                // Before the verb kubectl knows its global flags only.
                read.flags.iter().all(|(name, _)| is_global(name)).then_some(())?;
                seen_verb = true;
            } else {
                return None;
            }
        }
        seen_verb.then_some(read)
    }

    /// The value of a flag; the last one counts.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.flags.iter().rfind(|(flag, _)| *flag == name).map(|(_, value)| value.as_str())
    }

    /// The value of a flag that is not empty, as most of kubectl's flags are absent when empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.value(name).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// The values of a flag that may be repeated.
    pub(super) fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.flags.iter().filter(move |(flag, _)| *flag == name).map(|(_, value)| value.as_str())
    }

    /// Whether a switch is on. Its value was read before.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.value(name) == Some("true")
    }

    fn long<'a>(
        &mut self,
        word: &str,
        grammar: &Grammar,
        rest: &mut impl Iterator<Item = Option<&'a str>>,
    ) -> Option<()> {
        let (name, inline) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let known = |flags: &[(char, &'static str)]| {
            flags.iter().find(|(_, long)| *long == name).map(|(_, long)| *long)
        };
        let (name, value) = if let Some(name) = known(grammar.values).or_else(|| known(GLOBAL)) {
            (name, if let Some(inline) = inline { inline } else { rest.next()?? })
        } else {
            (known(grammar.switches).or_else(|| known(GLOBAL_SWITCHES))?, on_or_off(inline)?)
        };
        self.flags.push((name, value.to_owned()));
        Some(())
    }

    /// `-A`, `-Aw`, `-nx`, `-n=x`, `-n x`
    fn short<'a>(
        &mut self,
        word: &str,
        grammar: &Grammar,
        rest: &mut impl Iterator<Item = Option<&'a str>>,
    ) -> Option<()> {
        for (at, letter) in word.char_indices() {
            let known = |flags: &[(char, &'static str)]| {
                flags.iter().find(|(short, _)| *short == letter && letter != ' ').map(|(_, long)| *long)
            };
            let behind = &word[at + letter.len_utf8()..];
            if let Some(name) = known(grammar.values).or_else(|| known(GLOBAL)) {
                let value = if behind.is_empty() {
                    rest.next()??
                } else {
                    behind.strip_prefix('=').unwrap_or(behind)
                };
                self.flags.push((name, value.to_owned()));
                return Some(());
            }
            let name = known(grammar.switches)?;
            let inline = behind.strip_prefix('=');
            self.flags.push((name, on_or_off(inline)?.to_owned()));
            if inline.is_some() {
                return Some(());
            }
        }
        Some(())
    }
}

/// Go's `strconv.ParseBool`.
fn on_or_off(value: Option<&str>) -> Option<&'static str> {
    match value {
        None | Some("1" | "t" | "T" | "TRUE" | "true" | "True") => Some("true"),
        Some("0" | "f" | "F" | "FALSE" | "false" | "False") => Some("false"),
        Some(_) => None,
    }
}

fn is_global(name: &str) -> bool {
    GLOBAL.iter().chain(GLOBAL_SWITCHES).any(|(_, global)| *global == name)
}

/// kubectl's global flags that our client keeps to ([`crate::cluster::client`]), and the namespace.
const GLOBAL: &[(char, &str)] = &[
    ('n', "namespace"),
    (' ', "as"),
    (' ', "as-group"),
    (' ', "as-uid"),
    (' ', "as-user-extra"),
    (' ', "certificate-authority"),
    (' ', "client-certificate"),
    (' ', "client-key"),
    (' ', "tls-server-name"),
    (' ', "token"),
    (' ', "user"),
];
const GLOBAL_SWITCHES: &[(char, &str)] = &[(' ', "insecure-skip-tls-verify")];

#[cfg(test)]
mod tests {
    use super::*;

    const GRAMMAR: Grammar = Grammar {
        values: &[('o', "output"), ('l', "selector")],
        switches: &[('A', "all-namespaces"), ('w', "watch")],
    };

    fn read(words: &[&str]) -> Option<Words> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Words::read(&words, "get", &GRAMMAR)
    }

    #[test]
    fn every_way_to_write_a_flag_is_read() {
        for words in [
            &["get", "-Aw", "-o", "wide", "pods", "-la=b"][..],
            &["get", "pods", "--all-namespaces=true", "--watch", "--output=wide", "--selector", "a=b"],
            &["get", "--output", "json", "-owide", "-l=a=b", "-A=1", "-w", "--", "pods"],
        ] {
            let read = read(words).unwrap();
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
            assert_eq!(read(words), None, "{words:?}");
        }
        assert!(read(&["-n", "x", "get", "pods", "--as=jane"]).is_some());
    }
}
