//! Builds the overlay kubeconfig of a shell, which comes before the user's own files in `KUBECONFIG`. It
//! is stored in the plugin's private folder. It contains no secret, except for contexts of several files of
//! `--kubeconfig-dir`, whose users may have the same name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cache;
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::{ClusterContext, User};
use crate::env::{self, Env};
use crate::error::{Context, Failure};
use crate::kubeconfig::selection::Chosen;
use crate::kubectl::overlay::{self, UNWRITTEN};
use crate::yaml;

/// The overlay as text. Its contexts have the names mc/CLUSTER; the first is the current one.
pub(super) fn text(chosen: &Chosen) -> Result<String, Failure> {
    let reached = chosen.reached();
    let copied = |(through, id): &(&ClusterContext, &ClusterId)| match &through.island {
        Some(_) if chosen.has_copies() => with_own_user(through, id),
        _ => (*through).clone(),
    };
    let contexts: Vec<_> = reached.iter().map(copied).collect();
    let reached: Vec<_> = contexts.iter().zip(reached.iter().map(|(_, id)| *id)).collect();
    let overlay = serde_json::to_value(overlay::overlay_of_reach(&reached)).context(|| UNWRITTEN)?;
    Ok(yaml::text(&overlay, 0))
}

/// The context with a copy of its user, which no other context of the overlay has.
fn with_own_user(through: &ClusterContext, id: &ClusterId) -> ClusterContext {
    let name = overlay::context_name(id);
    let mut users = through.kubeconfig.auth_infos.iter();
    let user = users.find(|user| Some(user.name.as_str()) == through.user_name());
    let user = match user.and_then(|user| user.auth_info.clone()) {
        Some(user) => User::Inline(name.clone(), Box::new(user), None),
        None => User::Named(None),
    };
    // The overlay is the only file that has the context.
    ClusterContext { context: Some(name), user, ..through.clone() }
}

/// The value of `KUBECONFIG`: the overlay, then the user's files. All paths are absolute, because a shell
/// changes its folder. Overlays of outer shells are omitted.
pub(super) fn list(overlay: &Path, chosen: &Chosen, env: &Env) -> Result<OsString, Failure> {
    let own = chosen.files().iter().filter(|file| !cache::is_own_file(file, env)).map(|file| absolute(file));
    let files: Vec<_> = std::iter::once(overlay.to_owned()).chain(own).collect();
    std::env::join_paths(&files).map_err(|_| {
        Failure::usage(format!("the name of a kubeconfig file contains the list separator: {files:?}"))
    })
}

/// `KUBECONFIG` without the plugin's overlays: `None` if it contains none, and an empty list if only the
/// default file or nothing is left.
pub(super) fn without_overlays(env: &Env) -> Option<Vec<PathBuf>> {
    let files: Vec<_> = std::env::split_paths(env.var(env::KUBECONFIG)?).collect();
    let own: Vec<_> = files.iter().filter(|file| !cache::is_own_file(file, env)).cloned().collect();
    let default = env.home().map(|home| home.join(".kube").join("config"));
    let is_default = matches!(own.as_slice(), [only] if Some(only) == default.as_ref());
    (own.len() < files.len()).then_some(if is_default { Vec::new() } else { own })
}

fn absolute(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}
