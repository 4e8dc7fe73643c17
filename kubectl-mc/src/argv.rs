//! Splits the words of `kubectl mc …` into the plugin's flags, kubectl's verb, and the rest, which reaches kubectl
//! byte for byte.
//!
//! Before the verb all our flags are ours. After it only those that kubectl would take for the
//! choice of the cluster are: kubectl's verbs use the rest. Nothing past `--` is looked at, and a
//! word that is the value of a flag of kubectl is never mistaken for a flag of ours.

mod flags;

use std::ffi::{OsStr, OsString};

use flags::{BuiltinFlag, FlagKind};

/// The command line, taken apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scanned {
    /// Our own flags with their values, in the order given.
    pub(crate) own: Vec<OsString>,
    /// Everything else, as given.
    pub(crate) kubectl: Vec<OsString>,
    /// Where the verb is in [`Self::kubectl`].
    verb: Option<usize>,
    flags: Vec<Flag>,
}

/// A flag of kubectl as it was given before any `--`.
#[derive(Clone, Debug)]
pub(crate) struct Flag {
    /// The long name without dashes; a short flag's letter where it has no long name of interest.
    name: String,
    /// Where it is in [`Scanned::kubectl`].
    at: usize,
    value: Value,
}

#[derive(Clone, Debug)]
enum Value {
    None,
    /// `--name=value`, `-nvalue`
    Inline(OsString),
    /// `--name value`
    Next,
}

impl Scanned {
    /// kubectl's verb.
    pub(crate) fn verb(&self) -> Option<&OsStr> {
        self.verb.map(|at| self.kubectl[at].as_os_str())
    }

    /// The first word after the verb that is neither a flag nor the value of one: `restart` of
    /// `rollout -n x restart`.
    pub(crate) fn word_after_verb(&self) -> Option<&OsStr> {
        let (at, _) = self.words_after_verb().next()?;
        Some(&self.kubectl[at])
    }

    /// The words after the verb that are neither flags nor their values, with their places, up to `--`.
    pub(crate) fn words_after_verb(&self) -> impl Iterator<Item = (usize, &OsStr)> {
        let begin = self.verb.map_or(usize::MAX, |verb| verb + 1);
        let of_flag = |at: usize| {
            self.flags
                .iter()
                .any(|flag| flag.at == at || (matches!(flag.value, Value::Next) && flag.at + 1 == at))
        };
        let words = self.kubectl.iter().enumerate().skip(begin).take_while(|(_, word)| *word != "--");
        words.filter(move |(at, _)| !of_flag(*at)).map(|(at, word)| (at, word.as_os_str()))
    }

    /// Whether the verb is one of kubectl itself, not of another plugin.
    pub(crate) fn verb_is_builtin(&self) -> bool {
        self.verb().and_then(OsStr::to_str).is_some_and(flags::is_builtin)
    }

    /// Whether a flag of kubectl was given before the verb, where only kubectl's own are possible.
    pub(crate) fn is_before_verb(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag.name == name && self.verb.is_none_or(|verb| flag.at < verb))
    }

    /// Whether a flag of kubectl is set: given, and not as `=false`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some_and(|flag| !matches!(&flag.value, Value::Inline(v) if v == "false"))
    }

    /// The value of a flag of kubectl; the last one counts, as for kubectl.
    pub(crate) fn value(&self, name: &str) -> Option<&OsStr> {
        self.values(name).last()
    }

    /// The values of a flag of kubectl that may be repeated.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &OsStr> {
        self.flags.iter().filter(move |flag| flag.name == name).filter_map(|flag| match &flag.value {
            Value::None => None,
            Value::Inline(value) => Some(value.as_os_str()),
            Value::Next => self.kubectl.get(flag.at + 1).map(OsString::as_os_str),
        })
    }

    /// Puts another value in the place of a flag's.
    pub(crate) fn set_value(&mut self, name: &str, value: &OsStr) {
        let Some(flag) = self.flags.iter_mut().rfind(|flag| flag.name == name) else { return };
        match &mut flag.value {
            Value::None => {}
            Value::Inline(inline) => {
                *inline = value.to_owned();
                let mut word = OsString::from(format!("--{name}="));
                word.push(value);
                self.kubectl[flag.at] = word;
            }
            Value::Next => self.kubectl[flag.at + 1] = value.to_owned(),
        }
    }

    /// Puts a flag right after the verb: before it kubectl would no longer find plugins, after `--` it is no flag.
    pub(crate) fn insert_after_verb(&mut self, flag: &str) {
        if let Some(verb) = self.verb {
            self.kubectl.insert(verb + 1, flag.into());
            self.flags.iter_mut().filter(|flag| flag.at > verb).for_each(|flag| flag.at += 1);
        }
    }

    fn find(&self, name: &str) -> Option<&Flag> {
        self.flags.iter().rfind(|flag| flag.name == name)
    }

    fn keep(&mut self, word: OsString) {
        self.kubectl.push(word);
    }

    /// Keeps a flag of kubectl, and the next word with it when that is its value.
    fn keep_flag(
        &mut self,
        name: &str,
        word: OsString,
        value: Value,
        rest: &mut impl Iterator<Item = OsString>,
    ) {
        let at = self.kubectl.len();
        let takes_next = matches!(value, Value::Next);
        self.flags.push(Flag { name: name.to_owned(), at, value });
        self.keep(word);
        if takes_next && let Some(next) = rest.next() {
            self.keep(next);
        }
    }

    fn take_own(&mut self, word: OsString, takes_next: bool, rest: &mut impl Iterator<Item = OsString>) {
        self.own.push(word);
        if takes_next && let Some(next) = rest.next() {
            self.own.push(next);
        }
    }
}

/// Takes `words`, all that follows `kubectl mc`, apart.
pub(crate) fn scan(words: Vec<OsString>) -> Scanned {
    let mut scanned = Scanned::default();
    let mut rest = words.into_iter();
    while let Some(word) = rest.next() {
        let bytes = word.as_encoded_bytes();
        if bytes == b"--" {
            scanned.keep(word);
            scanned.kubectl.extend(rest);
            break;
        } else if bytes == flags::DRY_RUN_CLUSTERS {
            scanned.own.push(word);
        } else if bytes.starts_with(b"--") {
            long(&mut scanned, word, &mut rest);
        } else if bytes.starts_with(b"-") && bytes.len() > 1 {
            short(&mut scanned, word, &mut rest);
        } else {
            scanned.verb.get_or_insert(scanned.kubectl.len());
            scanned.keep(word);
        }
    }
    scanned
}

/// `--name`, `--name=value`, `--name value`
fn long(scanned: &mut Scanned, word: OsString, rest: &mut impl Iterator<Item = OsString>) {
    let (name, inline) = split_long(&word);
    match flags::own(&name) {
        Some(BuiltinFlag { shape, after_verb }) if after_verb || scanned.verb.is_none() => {
            scanned.take_own(word, shape == FlagKind::Value && inline.is_none(), rest);
        }
        _ => {
            let value = match inline {
                Some(inline) => Value::Inline(inline),
                None if flags::long_takes_value(scanned.verb(), &name) => Value::Next,
                None => Value::None,
            };
            scanned.keep_flag(&name, word, value, rest);
        }
    }
}

/// `-x`, `-xy`, `-xvalue`, `-x=value`, `-x value`
fn short(scanned: &mut Scanned, word: OsString, rest: &mut impl Iterator<Item = OsString>) {
    let bytes = word.as_encoded_bytes();
    let first = bytes[1];
    if first == b'C' {
        let takes_next = bytes.len() == 2;
        return scanned.take_own(word, takes_next, rest);
    }
    if scanned.verb.is_none() && matches!(first, b'h' | b'V') && bytes.len() == 2 {
        return scanned.take_own(word, false, rest);
    }
    // Letters up to the first that takes a value; the rest of the word, or the next word, is that value.
    let takes = |letter: u8| flags::short_takes_value(scanned.verb(), letter);
    let letters = &bytes[1..];
    let end = letters.iter().position(|&letter| takes(letter) || letter == b'=').unwrap_or(letters.len());
    let (value, letter) = match letters.get(end) {
        Some(&letter) if takes(letter) && end + 1 == letters.len() => (Value::Next, letter),
        Some(&letter) if takes(letter) => {
            let value = &letters[end + 1..];
            let value = value.strip_prefix(b"=").unwrap_or(value);
            (Value::Inline(String::from_utf8_lossy(value).into_owned().into()), letter)
        }
        _ => (Value::None, first),
    };
    // Each switch of the word counts for itself; the last one stands for the word when none takes a value.
    let verb = scanned.verb().map(OsStr::to_owned);
    let (last, switches) = match (&value, letters[..end].split_last()) {
        (Value::None, Some((&last, switches))) => (last, switches),
        _ => (letter, &letters[..end]),
    };
    let at = scanned.kubectl.len();
    for &switch in switches {
        let name = flags::long_of(verb.as_deref(), switch).to_owned();
        scanned.flags.push(Flag { name, at, value: Value::None });
    }
    scanned.keep_flag(flags::long_of(verb.as_deref(), last), word, value, rest);
}

/// The name and the inline value of `--name[=value]`. Names are ASCII, so the cut is at a character.
fn split_long(word: &OsStr) -> (String, Option<OsString>) {
    let Some(text) = word.to_str() else {
        // A value that is no UTF-8: only its name is of interest, and it is inline.
        let lossy = word.to_string_lossy();
        let name = lossy[2..].split('=').next().unwrap_or_default();
        return (name.to_owned(), lossy.contains('=').then(|| word.to_owned()));
    };
    match text[2..].split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.into())),
        None => (text[2..].to_owned(), None),
    }
}

#[cfg(test)]
mod tests;
