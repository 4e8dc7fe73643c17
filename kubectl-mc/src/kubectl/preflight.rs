//! Requests the member's version before kubectl runs, if kubectl would hide a refusal.
//!
//! While kubectl's discovery cache for a member is cold, kubectl hides refusals of discovery: a 403 becomes
//! "unknown", a 404 "could not find the requested resource". In this case, and for a cluster not seen before,
//! one request shows which hop refused. With a warm cache there is no request.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kubectl_mc_api::ClusterName;

use crate::argv::Scanned;
use crate::cache;
use crate::cluster::client::{self, ClientError, Reply};
use crate::cluster::context::ClusterContext;
use crate::cluster::hop::{Asked, Hop, Refusal};
use crate::cluster::hub::Hub;
use crate::env::Env;
use crate::error::Failure;
use crate::kubectl::{overlay, verb};

/// Whether the request is needed. `seen` means that this host reached this cluster before.
pub(crate) fn is_needed(
    scanned: &Scanned,
    host: &ClusterContext,
    cluster: &ClusterName,
    env: &Env,
    seen: bool,
    now: SystemTime,
) -> bool {
    if needs_no_server(scanned) {
        return false;
    }
    let cache = cache::of_kubectl(scanned.value("cache-dir"), env);
    let server = overlay::server(host, &cluster.clone().into());
    !seen || cache.is_none_or(|cache| !is_warm(&discovery_folder(&cache, &server), now))
}

/// Sends the request. The only errors are a refusal by a hop before the member, and a key of the
/// host that the plugin always refuses. If the request fails otherwise, or the member itself
/// responds, kubectl reports the result.
pub(crate) fn run(
    host: &ClusterContext,
    cluster: &ClusterName,
    scanned: &Scanned,
    env: &Env,
) -> Result<(), Failure> {
    let path = format!("{}{VERSION}", host.hub.root(cluster));
    let answer = client::get(host, scanned, env, &path, "application/json");
    let refusal = of_answer(host, answer).map_err(|error| error.of(&host.describe()))?;
    let Some(refusal) = refusal else { return Ok(()) };
    if refusal.may_lack_the_sidecar()
        && let Some(other) = Hub::find_at(host, scanned, env)
    {
        return Err(other.into());
    }
    Err(refused("kubectl", scanned, host, cluster, &refusal))
}

/// The same for one of several clusters, with an existing client.
pub(crate) async fn refusal(
    host: &ClusterContext,
    client: &kube::Client,
    cluster: &ClusterName,
) -> Result<Option<Refusal>, ClientError> {
    let path = format!("{}{VERSION}", host.hub.root(cluster));
    of_answer(host, client::get_by(client, &path, "application/json").await)
}

fn of_answer(
    host: &ClusterContext,
    answer: Result<Reply, ClientError>,
) -> Result<Option<Refusal>, ClientError> {
    match answer {
        Ok(reply) => Ok(reply.refusal_before(&host.hub.dialect, VERSION)),
        Err(error) if error.is_of_a_key() => Err(error),
        // kubectl reports other results itself.
        Err(ClientError::Setup(_) | ClientError::Tls(_) | ClientError::TooLarge(_)) => Ok(None),
        Err(error @ ClientError::Unreachable(_)) => {
            Ok(Some(Refusal { hop: Hop::HostUnreachable, message: error.reason().into() }))
        }
    }
}

/// Why a command of `program` on one cluster was refused: the hop, its message, and a hint.
pub(crate) fn refused(
    program: &str,
    scanned: &Scanned,
    host: &ClusterContext,
    cluster: &ClusterName,
    refusal: &Refusal,
) -> Failure {
    let verb = scanned.verb().unwrap_or_default().to_string_lossy();
    Failure::new(format!("{program} {verb} on cluster {cluster} through {}: {refusal}", host.describe()))
        .with_hint(refusal.hint(host, Some(cluster), &Asked::of(scanned)))
        .with_status(refusal.exit_status())
}

/// Whether `create` only prints an object that its arguments describe. Other commands with
/// `--dry-run=client` read from the server.
fn is_generated(scanned: &Scanned) -> bool {
    let is_of_client = scanned.value("dry-run").is_some_and(|strategy| strategy == "client");
    is_of_client && scanned.value("filename").is_none() && scanned.value("kustomize").is_none()
}

/// Whether the command needs no server, or must not be delayed (completion).
pub(crate) fn needs_no_server(scanned: &Scanned) -> bool {
    let verb = scanned.verb().unwrap_or_default();
    verb::is_local(scanned)
        || verb == "config"
        || (scanned.has("local") && scanned.verb_is_builtin())
        || (verb == "version" && scanned.has("client"))
        || (verb == "create" && is_generated(scanned))
}

/// The same as client-go's `computeDiscoverCacheDir`.
fn discovery_folder(cache: &Path, server: &str) -> PathBuf {
    let host = server.replacen("https://", "", 1).replacen("http://", "", 1);
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '(' | ')' | '/' | '.');
    let safe: String = host.chars().map(|c| if legal(c) { c } else { '_' }).collect();
    cache.join("discovery").join(safe)
}

/// kubectl refreshes its cache after 6 hours.
fn is_warm(folder: &Path, now: SystemTime) -> bool {
    let written = folder.join("servergroups.json").metadata().and_then(|metadata| metadata.modified());
    written.is_ok_and(|written| now.duration_since(written).is_ok_and(|age| age < DISCOVERY_LIFETIME))
}

const VERSION: &str = "/version";
const DISCOVERY_LIFETIME: Duration = Duration::from_secs(6 * 60 * 60);

#[cfg(test)]
mod tests;
