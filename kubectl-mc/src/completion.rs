//! Implements shell completion with the protocol of cobra: `kubectl mc __complete WORDS… LAST` prints the
//! candidates for the last word, and always succeeds. kubectl requests them through `kubectl_complete-mc`,
//! and the scripts of `kubectl mc completion` request them directly. A response takes at most a second;
//! slower results are omitted.
//!
//! - [`respond`]: the candidates; [`answer`]: their format
//! - [`clusters`]: names of clusters; [`values`]: values of the plugin's flags and arguments
//! - [`own_verb`]: the command line of a plugin verb; [`kubectl_verb`]: that of kubectl, which completes the
//!   rest
//! - [`mod@script`]: the scripts for shells; [`shim`]: `kubectl_complete-mc` and its installation

mod answer;
mod child;
mod clusters;
mod cursor;
mod kubectl_verb;
mod own_verb;
mod script;
mod session;
mod shim;
mod values;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use clap::Command;
use kubectl_mc_api::go_duration::parse_flag;
use tokio::time::Instant;

use self::cursor::{Cursor, Place};
use self::session::Session;
use crate::argv::{COMPARE, TAIL};
use crate::env::{COMPLETION_TIMEOUT, Env};

pub(crate) use answer::{Answer, VERB};
pub(crate) use script::script;
pub(crate) use shim::{install, uninstall};

/// The words of the command line. Under the name of kubectl's completion program, [`VERB`] is added to them.
pub(crate) fn arguments(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words = words.into_iter();
    let program = words.next().unwrap_or_default();
    let is_completion = Path::new(&program).file_stem() == Some(OsStr::new(shim::NAME));
    is_completion.then(|| VERB.into()).into_iter().chain(words).collect()
}

/// The candidates for the last word until the deadline. `parser` has the flags and the verbs of the plugin.
pub(crate) fn respond(mut words: Vec<OsString>, parser: Command, env: &Env, deadline: Instant) -> Answer {
    let Some(typed) = words.pop().and_then(|word| word.into_string().ok()) else { return Answer::default() };
    let mut parser = parser;
    parser.build();
    let cursor = Cursor::find(words, &typed);
    let Some(session) = Session::new(&cursor, &parser, env, deadline) else { return Answer::default() };
    let verb = cursor.before.verb().and_then(OsStr::to_str);
    let own =
        verb.filter(|verb| !matches!(*verb, COMPARE | TAIL)).and_then(|verb| parser.find_subcommand(verb));
    match (&cursor.place, own) {
        (Place::OwnValue(flag), _) => values::of_flag(&session, parser.get_arguments(), flag, &typed),
        (_, Some(own)) if verb != Some("help") => own_verb::respond(&session, own, &cursor, &typed),
        _ => kubectl_verb::respond(&session, &parser, &cursor, &typed),
    }
}

/// The time of a response.
pub(crate) fn budget(env: &Env) -> Duration {
    let given = env.var(COMPLETION_TIMEOUT).and_then(OsStr::to_str);
    given.and_then(|text| parse_flag(text).ok()).unwrap_or(BUDGET)
}

/// The plugin's part of a second, in which kubectl and the shell start too.
const BUDGET: Duration = Duration::from_millis(800);

#[cfg(test)]
mod tests;
