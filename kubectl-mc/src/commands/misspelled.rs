//! Finds a misspelled verb before any request or prompt. Plugins of kubectl and aliases of the user take
//! precedence. A word that resembles no verb is left to kubectl, which may be newer than this program.

use std::ffi::OsStr;

use super::builtin;
use crate::argv::{self, Scanned};
use crate::cluster::credential;
use crate::env::Env;
use crate::error::{Failure, Hint, mc};
use crate::kubectl::exec;
use crate::next_command::{quoted, shown};
use crate::suggestion;

pub(super) fn check(scanned: &Scanned, env: &Env) -> Result<(), Failure> {
    let Some(given) = scanned.verb().and_then(OsStr::to_str) else { return Ok(()) };
    let known = || builtin::names().chain(argv::KUBECTL_VERBS.iter().copied());
    if given.starts_with("__") || known().any(|known| known == given) {
        return Ok(());
    }
    let nearest = suggestion::nearest(given, known());
    let mut rest = scanned.plugin_words().skip(1);
    let is_before_verb = rest.next().is_some_and(|next| known().any(|known| next == known));
    if (nearest.is_none() && !is_before_verb) || is_elsewhere(given, scanned, env) {
        return Ok(());
    }
    let hint = match (nearest, is_before_verb) {
        (Some(nearest), true) => {
            Hint::from(format!("did you mean {nearest}? ")).then(as_cluster(given, scanned))
        }
        (Some(nearest), false) => format!("did you mean {nearest}?").into(),
        (None, _) => as_cluster(given, scanned),
    };
    Err(unknown(given, hint))
}

/// Refuses an unknown verb before the prompt for a cluster, which would be useless.
pub(super) fn check_before_question(scanned: &Scanned, env: &Env) -> Result<(), Failure> {
    let Some(given) = scanned.verb().and_then(OsStr::to_str) else { return Ok(()) };
    let is_known = builtin::names().any(|known| known == given) || scanned.verb_is_builtin();
    if is_known || given.starts_with("__") || is_elsewhere(given, scanned, env) {
        return Ok(());
    }
    Err(unknown(given, as_cluster(given, scanned)))
}

fn unknown(given: &str, hint: Hint) -> Failure {
    Failure::usage(format!("unknown command {given:?}: no plugin kubectl-{given} is in PATH")).with_hint(hint)
}

/// Whether another plugin or an alias of the user has the word.
fn is_elsewhere(given: &str, scanned: &Scanned, env: &Env) -> bool {
    exec::has_plugin(scanned, env) || is_alias(given, scanned, env)
}

/// The corrected command, if the word in the place of the verb is a cluster.
fn as_cluster(given: &str, scanned: &Scanned) -> Hint {
    let words = scanned.kubectl.iter().filter(|word| *word != given);
    let rest = shown(words.map(|word| word.as_os_str()));
    let rest = if rest.is_empty() { "COMMAND".to_owned() } else { rest };
    mc(format!("-C {} {rest}", quoted(given.as_ref()))).after(format!("if {given} is a cluster"))
}

/// Whether kubectl's preferences file contains the word, which may then be an alias.
fn is_alias(word: &str, scanned: &Scanned, env: &Env) -> bool {
    let file = credential::kuberc(scanned, env);
    file.is_some_and(|file| std::fs::read_to_string(file).is_ok_and(|text| text.contains(word)))
}
