//! Completes the command line of a plugin verb, according to the parser.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command};

use super::answer::{Answer, Candidate};
use super::cursor::Cursor;
use super::session::Session;
use super::values;

pub(super) fn respond(session: &Session<'_>, verb: &Command, cursor: &Cursor, typed: &str) -> Answer {
    let words = cursor.before.kubectl.iter().skip_while(|word| *word != verb.get_name()).skip(1);
    let place = Place::find(verb, words);
    if let Some(flag) = place.value_of {
        return values::of_argument(session, flag, typed);
    }
    if let Some((name, value)) = typed.split_once('=').filter(|_| !place.is_after_dashes)
        && name.starts_with("--")
    {
        return values::of_flag(session, place.command.get_arguments(), name, value);
    }
    if let Some(value) = typed.strip_prefix("-C").filter(|value| !value.is_empty() && !place.is_after_dashes)
    {
        return values::of_flag(session, place.command.get_arguments(), "-C", value).behind("-C");
    }
    if typed.starts_with('-') && !place.is_after_dashes {
        return flags(place.command.get_arguments(), typed);
    }
    let below = if place.arguments == 0 { subcommands(place.command, typed) } else { Answer::default() };
    if !below.candidates.is_empty() || place.command.has_subcommands() {
        return below;
    }
    place.argument().map(|argument| values::of_argument(session, argument, typed)).unwrap_or_default()
}

/// The flags of a command that begin with the typed text. A short flag is only offered after a single dash.
pub(super) fn flags<'a>(arguments: impl IntoIterator<Item = &'a Arg>, typed: &str) -> Answer {
    let mut candidates = Vec::new();
    for argument in arguments.into_iter().filter(|argument| !argument.is_hide_set()) {
        let about = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let sign = if argument.is_require_equals_set() { "=" } else { "" };
        let long = argument.get_long().map(|long| format!("--{long}{sign}"));
        let short = argument.get_short().map(|short| format!("-{short}"));
        candidates.extend(long.into_iter().chain(short).filter_map(|word| Candidate::new(&word, &about)));
    }
    let found = candidates.into_iter().collect::<Answer>().beginning_with(typed);
    let needs_value = |candidate: &Candidate| candidate.word().ends_with('=');
    if found.candidates.iter().all(needs_value) { found.without_space() } else { found }
}

/// The subcommands that begin with the typed text.
pub(super) fn subcommands(command: &Command, typed: &str) -> Answer {
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    let candidate = |below: &Command| {
        Candidate::new(below.get_name(), &below.get_about().map(ToString::to_string).unwrap_or_default())
    };
    shown.filter_map(candidate).collect::<Answer>().beginning_with(typed)
}

/// The position after the words.
struct Place<'a> {
    /// The verb or subcommand.
    command: &'a Command,
    /// The flag whose value is next.
    value_of: Option<&'a Arg>,
    /// The number of preceding arguments.
    arguments: usize,
    is_after_dashes: bool,
}

impl<'a> Place<'a> {
    fn find(command: &'a Command, words: impl Iterator<Item = &'a OsString>) -> Self {
        let mut place = Self { command, value_of: None, arguments: 0, is_after_dashes: false };
        for word in words {
            place.pass(&word.to_string_lossy());
        }
        place
    }

    fn pass(&mut self, word: &str) {
        if self.value_of.take().is_some() {
            return;
        }
        if self.is_after_dashes {
            self.arguments += 1;
        } else if word == "--" {
            self.is_after_dashes = true;
        } else if let Some(long) = word.strip_prefix("--") {
            self.value_of = self.flag(|flag| flag.get_long() == Some(long));
        } else if word.len() > 1 && word.starts_with('-') {
            let mut letters = word[1..].chars();
            let with_value = letters.find_map(|letter| self.flag(|flag| flag.get_short() == Some(letter)));
            self.value_of = with_value.filter(|_| letters.as_str().is_empty());
        } else if let Some(below) =
            self.command.find_subcommand(OsStr::new(word)).filter(|_| self.arguments == 0)
        {
            self.command = below;
        } else {
            self.arguments += 1;
        }
    }

    /// The flag that takes the next word as its value.
    fn flag(&self, is_it: impl Fn(&Arg) -> bool) -> Option<&'a Arg> {
        let mut takes = self.command.get_arguments().filter(|flag| flag.get_action().takes_values());
        takes.find(|flag| is_it(flag) && !flag.is_positional() && !flag.is_require_equals_set())
    }

    /// The next argument, or the last one if it takes several values.
    fn argument(&self) -> Option<&'a Arg> {
        let all: Vec<_> = self.command.get_positionals().collect();
        let is_several = |argument: &&Arg| matches!(argument.get_action(), clap::ArgAction::Append);
        all.get(self.arguments).copied().or_else(|| all.last().copied().filter(is_several))
    }
}
