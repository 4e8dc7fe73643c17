//! Remembers the clusters on which the last command failed, for `--retry-failed`, together with their host.
//!
//! All commands of the user write the same file, even from different shells. So a command that may
//! change a cluster has a separate file with its arguments: only the same command is retried.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kubectl_mc_api::ClusterName;
use serde::{Deserialize, Serialize};

use super::outcome::{Fault, Outcome};
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::ClusterContext;
use crate::cluster::reach::Reach;
use crate::error::{Failure, mc};
use crate::exit::ExitStatus;
use crate::kubectl::verb::Effect;
use crate::multi::selection::Choice;
use crate::next_command::shown;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Remembered {
    /// The server of the host; empty if no cluster is a member.
    server: String,
    clusters: Vec<ClusterName>,
    #[serde(default)]
    contexts: Vec<String>,
    /// The words of the command for kubectl, without secrets.
    #[serde(default)]
    words: String,
}

/// Stores the failed clusters of a command. Without failures, nothing is left to retry.
pub(super) fn remember(
    private: &Path,
    reach: &Reach,
    outcomes: &[Outcome],
    words: &[OsString],
    effect: Effect,
) -> io::Result<()> {
    let mut remembered = Remembered { words: shown_words(words), ..Remembered::default() };
    for outcome in outcomes {
        if outcome.result.as_ref().is_err_and(Fault::is_failure) {
            match &outcome.cluster {
                ClusterId::Member(name) => remembered.clusters.push(name.clone()),
                ClusterId::Context(context) => remembered.contexts.push(context.raw_name().to_owned()),
            }
        }
    }
    if remembered.clusters.is_empty() && remembered.contexts.is_empty() {
        return forget(private, effect);
    }
    if let Some(host) = reach.host.as_ref().filter(|_| !remembered.clusters.is_empty()) {
        remembered.server.clone_from(&host.host.server);
    }
    for path in paths(private, effect) {
        // The rename is atomic, so readers never see a partial file.
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        fs::write(&temporary, serde_json::to_vec(&remembered)?)?;
        fs::rename(&temporary, path)?;
    }
    Ok(())
}

/// Removes the clusters of an earlier command.
pub(super) fn forget(private: &Path, effect: Effect) -> io::Result<()> {
    for path in paths(private, effect) {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The clusters that failed in the last command or, for a change, in the last change, which must be
/// the same. Uses `host` if there are members among them.
pub(crate) fn recall<'a>(
    private: &Path,
    words: &[OsString],
    effect: Effect,
    host: impl FnOnce() -> Result<&'a ClusterContext, Failure>,
) -> Result<Choice, Failure> {
    let words = shown_words(words);
    let read = |path: PathBuf| serde_json::from_slice(&fs::read(path).ok()?).ok();
    let remembered = match effect {
        Effect::Reads => read(private.join(LAST)),
        Effect::Opens | Effect::Writes => {
            read(private.join(LAST_CHANGE)).or_else(|| read(private.join(LAST)))
        }
    };
    let remembered: Remembered = remembered.ok_or_else(|| nothing("no cluster failed last time"))?;
    if effect != Effect::Reads && remembered.words != words {
        return Err(nothing(format!("another command failed last: {:?}", remembered.words)).with_hint(
            mc(format!("--cluster=NAMES {words}"))
                .after("a change is retried as it was; choose the clusters"),
        ));
    }
    let Remembered { server, clusters, contexts, .. } = remembered;
    if !clusters.is_empty() && host()?.server != server {
        return Err(nothing(format!("the clusters of the last failure belong to another host: {server}")));
    }
    Ok(Choice::remembered(clusters, contexts))
}

fn nothing(why: impl Into<String>) -> Failure {
    Failure::new(why).with_status(ExitStatus::NoSuchCluster)
}

/// The files of a command with this effect.
fn paths(private: &Path, effect: Effect) -> impl Iterator<Item = PathBuf> {
    let change = (effect != Effect::Reads).then_some(LAST_CHANGE);
    [LAST].into_iter().chain(change).map(|name| private.join(name))
}

fn shown_words(words: &[OsString]) -> String {
    shown(words.iter().map(OsString::as_os_str))
}

const LAST: &str = "last-failed.json";
const LAST_CHANGE: &str = "last-failed-change.json";
