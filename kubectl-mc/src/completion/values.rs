//! Completes the values of the plugin's flags and arguments, according to their definition in the
//! parser.

use std::process::Command;

use clap::Arg;

use super::answer::{Answer, Candidate};
use super::session::Session;
use super::{child, clusters};
use crate::cli::HubChoice;
use crate::kubectl::exec::{Invocation, Kubectl};
use crate::multi::selection::ContextFilter;

/// Completes the value of a flag as typed: `--cluster`, `-C`.
pub(super) fn of_flag<'a>(
    session: &Session<'_>,
    arguments: impl IntoIterator<Item = &'a Arg>,
    flag: &str,
    typed: &str,
) -> Answer {
    let found = arguments.into_iter().find(|argument| match flag.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        None => argument.get_short().is_some_and(|short| flag.strip_prefix('-') == Some(&*short.to_string())),
    });
    found.map(|argument| of_argument(session, argument, typed)).unwrap_or_default()
}

/// Completes the value of an argument of the parser.
pub(super) fn of_argument(session: &Session<'_>, argument: &Arg, typed: &str) -> Answer {
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        let shown = possible.iter().filter(|value| !value.is_hide_set());
        let candidate = |value: &clap::builder::PossibleValue| {
            let about = value.get_help().map(ToString::to_string).unwrap_or_default();
            Candidate::new(value.get_name(), &about)
        };
        return shown.filter_map(candidate).collect::<Answer>().beginning_with(typed);
    }
    let id = argument.get_id().as_str();
    let value = argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    match value {
        _ if matches!(id, "context" | "member_context") => contexts(session, typed),
        _ if id == "context_selector" => fields(typed),
        "CONTEXT" => contexts(session, typed),
        "CLUSTERS" => clusters::several(session, typed),
        // The word before ROLE or VERB is the cluster, unless a flag sets the cluster.
        "[CLUSTER] ROLE" => roles(typed).or_also(clusters::one(session, typed)),
        _ if id == "after_role" => roles(typed),
        "CLUSTER" | "[CLUSTER] VERB" => clusters::one(session, typed),
        "FILE" | "DIR_OR_GLOB" => Answer::files(),
        "HUB" => Answer::words(HubChoice::words()).beginning_with(typed),
        _ => Answer::default(),
    }
}

/// The roles that every cluster has.
fn roles(typed: &str) -> Answer {
    Answer::words(["view", "edit", "admin", "cluster-admin"]).beginning_with(typed)
}

/// The fields of `--context-selector`. Only the first is completed: bash ends a word at `=`, so it would
/// insert a second one after the wrong text.
fn fields(typed: &str) -> Answer {
    let words: Vec<_> = ContextFilter::fields().map(|field| format!("{field}=")).collect();
    Answer::words(words.iter().map(String::as_str)).beginning_with(typed).without_space()
}

/// The contexts of the kubeconfig.
fn contexts(session: &Session<'_>, typed: &str) -> Answer {
    let text = || {
        let mut words = vec!["config".into(), "get-contexts".into(), "--output=name".into()];
        words.extend(session.host.kubeconfig.as_deref().map(|file| {
            let mut word = std::ffi::OsString::from("--kubeconfig=");
            word.push(file);
            word
        }));
        child::output(plain_kubectl(session, words)?, session.deadline)
    };
    let text = text().unwrap_or_default();
    Answer::words(String::from_utf8_lossy(&text).lines()).beginning_with(typed)
}

/// kubectl with the kubeconfig of the user.
pub(super) fn plain_kubectl(session: &Session<'_>, arguments: Vec<std::ffi::OsString>) -> Option<Command> {
    let kubeconfig = session.env.var(crate::env::KUBECONFIG).unwrap_or_default().to_owned();
    Some(Kubectl::find(session.env).ok()?.child(Invocation { arguments, kubeconfig }))
}
