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
mod kubectl_verb;
mod own_verb;
mod script;
mod shim;
mod values;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Command, FromArgMatches};
use kubectl_mc_api::go_duration::parse_flag;
use tokio::time::Instant;

use crate::argv::{self, COMPARE, Scanned, TAIL};
use crate::cli::{Flags, HubChoice};
use crate::cluster::context::HostOptions;
use crate::config_file::ClusterSet;
use crate::env::{COMPLETION_TIMEOUT, Env};
use crate::multi::selection::{Choice, ContextFilter, Kind};
use crate::settings::Settings;

pub(crate) use answer::Answer;
pub(crate) use script::script;
pub(crate) use shim::{install, uninstall};

/// The hidden verb. It is only recognized as the first word.
pub(crate) const VERB: &str = "__complete";

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

/// The position of the last word.
struct Cursor {
    /// The words before it, without a plugin flag that takes it as its value.
    before: Scanned,
    place: Place,
}

enum Place {
    /// The value of this plugin flag, in its own word.
    OwnValue(String),
    /// The value of a kubectl flag, in its own word.
    KubectlValue,
    /// After `--`.
    AfterDashes,
    /// A verb, a flag or an argument.
    Word,
}

impl Cursor {
    fn find(words: Vec<OsString>, typed: &str) -> Self {
        // A placeholder that is not a flag shows how the scanner classifies the word.
        let mark = OsString::from(if typed.starts_with('-') { "x" } else { typed });
        let marked = argv::scan(words.iter().cloned().chain([mark]).collect());
        let before = argv::scan(words.clone());
        if marked.own.len() > before.own.len() {
            let flag = words.last().map(|flag| flag.to_string_lossy().into_owned()).unwrap_or_default();
            let before = argv::scan(words[..words.len() - 1].to_vec());
            return Self { before, place: Place::OwnValue(flag) };
        }
        let place = if before.has_dashes() {
            Place::AfterDashes
        } else if marked.kubectl.len().checked_sub(1).is_some_and(|last| marked.is_value(last)) {
            Place::KubectlValue
        } else {
            Place::Word
        };
        Self { before, place }
    }
}

/// The input of a completion, and its deadline.
struct Session<'a> {
    env: &'a Env,
    deadline: Instant,
    /// This program.
    program: PathBuf,
    host: HostOptions,
    sets: BTreeMap<String, ClusterSet>,
    choice: Option<Choice>,
    from: Kind,
    /// The filter of the offered contexts.
    filter: ContextFilter,
    /// The value of kubectl's `--kuberc`.
    kuberc: Option<OsString>,
}

impl<'a> Session<'a> {
    /// Returns `None` if the flags or the configuration are invalid; the command itself reports the error.
    fn new(cursor: &Cursor, parser: &Command, env: &'a Env, deadline: Instant) -> Option<Self> {
        let words = std::iter::once("kubectl mc".into()).chain(cursor.before.own.iter().cloned());
        let matches = parser.clone().try_get_matches_from(words).ok()?;
        let flags = Flags::from_arg_matches(&matches).ok()?;
        let Settings { host, sets, choice, from, .. } = Settings::resolve(&flags, env).ok()?;
        let filter = flags.context_selector.as_deref().map(ContextFilter::parse).transpose().ok()?;
        let filter = filter.unwrap_or_default();
        let kuberc = cursor.before.values("kuberc").next().map(OsStr::to_owned);
        let program = std::env::current_exe().ok()?;
        Some(Self { env, deadline, program, host, sets, choice, from, filter, kuberc })
    }

    /// The flags that address the host.
    fn host_flags(&self) -> impl Iterator<Item = OsString> {
        let flag = |name: &str, value: &OsStr| {
            let mut word = OsString::from(name);
            word.push(value);
            word
        };
        let context = self.host.context.as_deref().map(|context| flag("--context=", context.as_ref()));
        let kubeconfig = self.host.kubeconfig.as_deref().map(|file| flag("--kubeconfig=", file.as_os_str()));
        let hub = match &self.host.hub {
            HubChoice::Auto | HubChoice::Found(_) => None,
            HubChoice::Is(dialect) => Some(flag("--hub=", dialect.to_string().as_ref())),
        };
        context.into_iter().chain(kubeconfig).chain(hub)
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
