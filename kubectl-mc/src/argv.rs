//! Splits the arguments of `kubectl mc …` into the plugin's flags, kubectl's verb, and the rest, which
//! reaches kubectl byte for byte.
//!
//! Before the verb, the plugin reads all of its flags; after a kubectl verb, it reads those that
//! kubectl does not have. After the verb of another plugin, it reads only the flags that choose
//! clusters and the host. Words after `--` are not parsed, and the value of a kubectl flag is never
//! mistaken for a flag of the plugin.

mod flags;

use std::ffi::{OsStr, OsString};

use flags::FlagKind;
pub(crate) use flags::{COMPARE, KUBECTL_VERBS, TAIL, is_builtin};

/// The parsed command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scanned {
    /// The plugin's flags with their values, in the given order.
    pub(crate) own: Vec<OsString>,
    /// All other words, as given.
    pub(crate) kubectl: Vec<OsString>,
    /// The position of the verb in [`Self::kubectl`].
    verb: Option<usize>,
    flags: Vec<Flag>,
    /// Whether the verb is an alias of a verb of kubectl.
    is_alias: bool,
}

/// A flag of kubectl before any `--`.
#[derive(Clone, Debug)]
pub(crate) struct Flag {
    /// The long name without dashes; the letter of a short flag whose long name is not needed.
    name: String,
    /// The position in [`Scanned::kubectl`].
    at: usize,
    value: Value,
}

#[derive(Clone, Debug)]
enum Value {
    None,
    /// In the same word: `--name=value` or `-nvalue`.
    Inline(OsString),
    /// In the next word: `--name value`.
    Next,
}

impl Scanned {
    /// kubectl's verb.
    pub(crate) fn verb(&self) -> Option<&OsStr> {
        self.verb.map(|at| self.kubectl[at].as_os_str())
    }

    /// The first word after the verb that is neither a flag nor its value, such as `restart` in `rollout -n x
    /// restart`.
    pub(crate) fn word_after_verb(&self) -> Option<&OsStr> {
        let (at, _) = self.words_after_verb().next()?;
        Some(&self.kubectl[at])
    }

    /// The words after the verb that are neither flags nor their values, with their positions, up to `--`.
    pub(crate) fn words_after_verb(&self) -> impl Iterator<Item = (usize, &OsStr)> {
        let begin = self.verb.map_or(usize::MAX, |verb| verb + 1);
        let words = (begin..self.dashes()).filter(|&at| !self.is_of_flag(at));
        words.map(|at| (at, self.kubectl[at].as_os_str()))
    }

    /// The words from the verb to the first flag, with which kubectl looks for a plugin.
    pub(crate) fn plugin_words(&self) -> impl Iterator<Item = &OsStr> {
        let words = self.kubectl.iter().skip(self.verb.unwrap_or(usize::MAX));
        words.map(OsString::as_os_str).take_while(|word| !word.as_encoded_bytes().starts_with(b"-"))
    }

    /// The words after `--`, which are never flags.
    pub(crate) fn words_after_dashes(&self) -> impl Iterator<Item = &OsStr> {
        self.kubectl.iter().skip(self.dashes() + 1).map(OsString::as_os_str)
    }

    /// The position of `--`, or the number of words.
    fn dashes(&self) -> usize {
        let dashes = |&at: &usize| self.kubectl[at] == "--" && !self.is_of_flag(at);
        (0..self.kubectl.len()).find(dashes).unwrap_or(self.kubectl.len())
    }

    /// Whether a `--` ends the flags.
    pub(crate) fn has_dashes(&self) -> bool {
        self.dashes() < self.kubectl.len()
    }

    /// Whether this word of [`Self::kubectl`] is the value of the preceding flag.
    pub(crate) fn is_value(&self, at: usize) -> bool {
        self.flags.iter().any(|flag| matches!(flag.value, Value::Next) && flag.at + 1 == at)
    }

    /// Whether this word is a flag or its value.
    fn is_of_flag(&self, at: usize) -> bool {
        self.is_value(at) || self.flags.iter().any(|flag| flag.at == at)
    }

    /// A suggested flag for choosing clusters, with its value, for a flag that kubectl does not have either.
    pub(crate) fn misspelled_choice(&self) -> Option<String> {
        self.flag_words().find_map(|(name, word, value)| {
            let is_long = word.as_encoded_bytes().starts_with(b"--");
            let meant = flags::meant_choice(name).filter(|_| is_long)?;
            let value = value.map(|value| format!("={}", value.to_string_lossy())).unwrap_or_default();
            let one = if name == "all" { ", or -C NAME for one cluster" } else { "" };
            Some(format!("--{meant}{value}{one}"))
        })
    }

    /// Whether the verb belongs to kubectl itself and not to another plugin.
    pub(crate) fn verb_is_builtin(&self) -> bool {
        self.is_alias || self.verb().and_then(OsStr::to_str).is_some_and(flags::is_builtin)
    }

    /// Marks the verb as an alias of a verb of kubectl, whose flags it takes.
    pub(crate) fn mark_alias(&mut self) {
        self.is_alias = true;
    }

    /// Whether a kubectl flag precedes the verb, where only kubectl's own flags are possible.
    pub(crate) fn is_before_verb(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag.name == name && self.verb.is_none_or(|verb| flag.at < verb))
    }

    /// Whether a kubectl flag is set: present, and not with `=false`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.flags.iter().rfind(|flag| flag.name == name).is_some_and(|flag| match &flag.value {
            Value::Inline(value) => value.to_str().and_then(parse_bool) != Some(false),
            Value::None | Value::Next => true,
        })
    }

    /// The value of a kubectl flag; the last one wins, as in kubectl.
    pub(crate) fn value(&self, name: &str) -> Option<&OsStr> {
        self.values(name).last()
    }

    /// The values of a repeatable kubectl flag.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &OsStr> {
        self.flags().filter(move |(flag, _)| *flag == name).filter_map(|(_, value)| value)
    }

    /// All kubectl flags by their long names, in the given order.
    pub(crate) fn flags(&self) -> impl Iterator<Item = (&str, Option<&OsStr>)> {
        self.flag_words().map(|(name, _, value)| (name, value))
    }

    /// The same, each with the word that contains it.
    pub(crate) fn flag_words(&self) -> impl Iterator<Item = (&str, &OsStr, Option<&OsStr>)> {
        self.flags.iter().map(|flag| {
            let value = match &flag.value {
                Value::None => None,
                Value::Inline(value) => Some(value.as_os_str()),
                Value::Next => self.kubectl.get(flag.at + 1).map(OsString::as_os_str),
            };
            (flag.name.as_str(), self.kubectl[flag.at].as_os_str(), value)
        })
    }

    /// Replaces the value of a flag.
    pub(crate) fn set_value(&mut self, name: &str, value: &OsStr) {
        let last = self.flags.iter().rposition(|flag| flag.name == name);
        if let Some(at) = last {
            self.set_value_at(at, value);
        }
    }

    /// Replaces the value of every flag of this name.
    pub(crate) fn set_values(&mut self, name: &str, value: &OsStr) {
        for at in 0..self.flags.len() {
            if self.flags[at].name == name {
                self.set_value_at(at, value);
            }
        }
    }

    fn set_value_at(&mut self, at: usize, value: &OsStr) {
        let flag = &mut self.flags[at];
        let name = flag.name.clone();
        match &mut flag.value {
            Value::None => {}
            Value::Inline(inline) => {
                // The part before the value stays: `-Aoyaml` contains another flag.
                let word = self.kubectl[flag.at].to_str();
                let before = word.and_then(|word| word.strip_suffix(inline.to_str()?));
                let mut word = before.map_or_else(|| format!("--{name}="), str::to_owned).into();
                *inline = value.to_owned();
                OsString::push(&mut word, value);
                self.kubectl[flag.at] = word;
            }
            Value::Next => self.kubectl[flag.at + 1] = value.to_owned(),
        }
    }

    /// Inserts a flag right after the verb: before the verb, kubectl would not find plugins, and after `--`
    /// it would not be a flag.
    pub(crate) fn insert_after_verb(&mut self, flag: &OsStr) {
        if let Some(verb) = self.verb {
            self.kubectl.insert(verb + 1, flag.into());
            self.flags.iter_mut().filter(|flag| flag.at > verb).for_each(|flag| flag.at += 1);
        }
    }

    /// The plugin's flags except those that choose clusters.
    pub(crate) fn own_besides_choice(&self) -> Vec<&OsStr> {
        let mut words = self.own.iter();
        let mut kept = Vec::new();
        while let Some(word) = words.next() {
            let (name, inline) = split_long(word);
            let kind = flags::own(&name).map(|flag| flag.shape);
            let takes_next = word == "-C" || (kind == Some(FlagKind::Value) && inline.is_none());
            let value = if takes_next { words.next() } else { None };
            if !is_choice(word) {
                kept.extend([word].into_iter().chain(value).map(OsString::as_os_str));
            }
        }
        kept
    }

    fn keep(&mut self, word: OsString) {
        self.kubectl.push(word);
    }

    /// Keeps a kubectl flag, together with the next word if that is the flag's value.
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

/// Whether the plugin reads `--name` after `verb`, or before any verb.
pub(crate) fn is_own(name: &str, verb: Option<&OsStr>) -> bool {
    flags::own(name).is_some_and(|flag| flag.is_ours(verb))
}

/// Whether the word is a plugin flag that chooses clusters.
pub(crate) fn is_choice(word: &OsStr) -> bool {
    let word = word.to_string_lossy();
    let name = word.split('=').next().unwrap_or_default();
    word.starts_with("-C") || CHOICES.contains(&name)
}

/// The flags that choose clusters.
const CHOICES: &[&str] = &[
    "--cluster",
    "--cluster-selector",
    "--where",
    "--all-clusters",
    "--exclude",
    "--contexts",
    "--context-selector",
    "--retry-failed",
];

/// Splits `words`, the arguments after `kubectl mc`.
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

/// Parses `--name`, `--name=value` and `--name value`.
fn long(scanned: &mut Scanned, word: OsString, rest: &mut impl Iterator<Item = OsString>) {
    let (name, inline) = split_long(&word);
    match flags::own(&name) {
        Some(flag) if flag.is_ours(scanned.verb()) => {
            scanned.take_own(word, flag.shape == FlagKind::Value && inline.is_none(), rest);
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

/// Parses `-x`, `-xy`, `-xvalue`, `-x=value` and `-x value`.
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
    // No verb of kubectl has a flag -y.
    if bytes == b"-y" && flags::own("yes").is_some_and(|yes| yes.is_ours(scanned.verb())) {
        return scanned.take_own(word, false, rest);
    }
    // Reads letters up to the first with a value, or with `=`. The rest of the word, or the next word, is its
    // value.
    let verb = scanned.verb().map(OsStr::to_owned);
    let takes = |letter: u8| flags::short_takes_value(verb.as_deref(), letter);
    let letters = &bytes[1..];
    let last = match letters.iter().position(|&letter| takes(letter) || letter == b'=') {
        Some(end) if takes(letters[end]) => end,
        end => end.unwrap_or(letters.len()).saturating_sub(1),
    };
    let value = match &letters[last + 1..] {
        [] if takes(letters[last]) => Value::Next,
        [] => Value::None,
        [b'=', value @ ..] | value => Value::Inline(String::from_utf8_lossy(value).into_owned().into()),
    };
    // Each switch in the word counts separately; the last flag represents the word.
    let long = |letter: u8| flags::long_of(verb.as_deref(), letter);
    let (at, name) = (scanned.kubectl.len(), long(letters[last]));
    for &switch in &letters[..last] {
        scanned.flags.push(Flag { name: long(switch).to_owned(), at, value: Value::None });
    }
    scanned.keep_flag(name, word, value, rest);
}

/// The same as Go's `strconv.ParseBool`.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Splits `--name[=value]`. Names are ASCII, so the split is at a character boundary.
fn split_long(word: &OsStr) -> (String, Option<OsString>) {
    let Some(text) = word.to_str() else {
        // For a value that is not UTF-8, only the name matters, and the value is inline.
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
