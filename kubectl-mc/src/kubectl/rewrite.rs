//! Rewrites the command line for one run of kubectl on one cluster, without access to files or the network.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::argv::Scanned;
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::ClusterContext;
use crate::error::{CommandLine, Failure, mc};
use crate::kubectl::exec::Invocation;
use crate::kubectl::{overlay, verb};

/// How kubectl handles the path of `--raw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawPath {
    /// kubectl joins it to the server's path.
    Joined,
    /// kubectl replaces the server's path with it.
    Replaces,
}

impl RawPath {
    /// Before 1.34, kubectl replaced the server's path with that of `--raw`, so
    /// `get --raw /version` reached the host instead of the member. Since 1.34 it joins the two,
    /// and a path rewritten for older versions would be doubled.
    pub(crate) fn of_minor_version(minor: u32) -> Self {
        if minor >= 34 { Self::Joined } else { Self::Replaces }
    }
}

/// Refuses arguments that cannot apply to the chosen cluster, before any request.
pub(crate) fn check(scanned: &Scanned, cluster: &ClusterId) -> Result<(), Failure> {
    let Some(verb) = scanned.verb() else {
        let kind = if cluster.member().is_some() { "cluster" } else { "context" };
        let example = mc(format!("{}--cluster={cluster} get pods", cluster.contexts_flag()));
        return Err(Failure::usage(format!("no command given for {kind} {cluster}"))
            .with_hint(example.after("for example")));
    };
    if verb == "config" {
        return Err(Failure::usage("`kubectl config` works on kubeconfig files, not on a cluster")
            .with_hint(CommandLine::new("kubectl config …").after("run it without mc")));
    }
    // After the verb of a plugin, `-s` belongs to that plugin.
    if scanned.value("server").is_some() && (scanned.verb_is_builtin() || scanned.is_before_verb("server")) {
        return Err(Failure::usage(format!("--server and --cluster={cluster} contradict each other"))
            .with_hint("--context=NAME chooses the host"));
    }
    Ok(())
}

/// The run of kubectl for `scanned` on `cluster`; `raw` only matters with `--raw`.
pub(crate) fn rewrite(
    mut scanned: Scanned,
    host: &ClusterContext,
    cluster: &ClusterId,
    overlay: &Path,
    raw: RawPath,
) -> Result<Invocation, Failure> {
    check(&scanned, cluster)?;
    let kubeconfig = kubeconfig_list(host, overlay)?;
    if raw == RawPath::Replaces
        && let Some(given) = uses_raw(&scanned).map(OsStr::to_owned)
    {
        scanned.set_value("raw", &below_member(&given, host, cluster)?);
    }
    // kubectl skips a missing overlay, and a kuberc may set a context: without the flag, the
    // command would run on another cluster. kubectl's plugins do not take it, and local commands do
    // not need it.
    if scanned.verb_is_builtin() && !verb::is_local(&scanned) {
        scanned.insert_after_verb(format!("--context={}", overlay::context_name(cluster)).as_ref());
    }
    // Otherwise `kubectl proxy` would serve the root of the server, which is the host and not the member.
    if scanned.verb().is_some_and(|verb| verb == "proxy") && !scanned.has("append-server-path") {
        scanned.insert_after_verb("--append-server-path".as_ref());
    }
    Ok(Invocation { arguments: scanned.kubectl, kubeconfig })
}

/// The overlay comes first, so that its current context wins, then the files with the user's entry.
pub(crate) fn kubeconfig_list(host: &ClusterContext, overlay: &Path) -> Result<OsString, Failure> {
    std::env::join_paths(std::iter::once(overlay).chain(host.files.iter().map(PathBuf::as_path))).map_err(
        |_| {
            let files = &host.files;
            Failure::usage(format!("the name of a kubeconfig file contains the list separator: {files:?}"))
        },
    )
}

/// The path given to `--raw`.
pub(crate) fn uses_raw(scanned: &Scanned) -> Option<&OsStr> {
    let verb = scanned.verb()?;
    ["get", "create", "replace", "delete"].iter().any(|raw| verb == *raw).then(|| scanned.value("raw"))?
}

/// The path of `--raw` below the member's root, for a kubectl that would send it to the host's root.
fn below_member(given: &OsStr, host: &ClusterContext, cluster: &ClusterId) -> Result<OsString, Failure> {
    let given = given.to_str().filter(|given| !given.contains("://"));
    let given = given
        .ok_or_else(|| Failure::usage("--raw is not a path").with_hint("for example: --raw=/version"))?;
    let slash = if given.starts_with('/') { "" } else { "/" };
    Ok(format!("{}{}{slash}{given}", host.prefix(), cluster.root(host)).into())
}

#[cfg(test)]
mod tests;
