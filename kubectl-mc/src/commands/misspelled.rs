//! Finds a misspelled verb before any request or prompt. Plugins of kubectl and aliases of the user take
//! precedence. A word that resembles no verb is left to kubectl, which may be newer than this program.

use std::ffi::OsStr;

use super::builtin;
use crate::argv::{self, Scanned};
use crate::env::{self, Env};
use crate::error::Failure;
use crate::kubectl::exec;
use crate::suggestion;

pub(super) fn check(scanned: &Scanned, env: &Env) -> Result<(), Failure> {
    let Some(given) = scanned.verb().and_then(OsStr::to_str) else { return Ok(()) };
    let known = || builtin::names().chain(argv::KUBECTL_VERBS.iter().copied());
    if given.starts_with("__") || known().any(|known| known == given) {
        return Ok(());
    }
    let nearest = suggestion::nearest(given, known());
    match nearest {
        Some(nearest) if !exec::has_plugin(scanned, env) && !is_alias(given, env) => Err(Failure::usage(
            format!("unknown command {given:?}: no plugin kubectl-{given} is in PATH"),
            format!("did you mean {nearest}?"),
        )),
        _ => Ok(()),
    }
}

/// Whether kubectl's preferences file contains the word, which may then be an alias.
fn is_alias(word: &str, env: &Env) -> bool {
    let file = match env.var(env::KUBERC) {
        Some(file) => file.into(),
        None => std::path::Path::new(env.home().unwrap_or_default()).join(".kube").join("kuberc"),
    };
    std::fs::read_to_string(file).is_ok_and(|text| text.contains(word))
}
