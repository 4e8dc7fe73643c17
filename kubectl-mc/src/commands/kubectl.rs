//! Any command of kubectl, on one cluster.

use std::time::SystemTime;

use crate::argv::Scanned;
use crate::cache::Cache;
use crate::env::{self, Env};
use crate::error::{Explain, Failure};
use crate::exit::ExitStatus;
use crate::host::Host;
use crate::kubectl::Kubectl;
use crate::rewrite::{self, RawPath};
use crate::settings::Settings;
use crate::{kubeconfig, preflight};

/// On success kubectl has taken our place and this does not return (on Unix).
pub(super) fn run(scanned: Scanned, settings: Settings, env: &Env) -> Result<ExitStatus, Failure> {
    let cluster = settings.cluster.ok_or(NoCluster)?;
    rewrite::check(&scanned, &cluster)?;
    let host = Host::load(&settings.host, env)?;
    let kubectl = Kubectl::find(env)?;
    let cache = Cache::open(env)?;
    let overlay = serde_json::to_vec(&kubeconfig::overlay(&host, &cluster)).map_err(Overlay)?;

    let now = SystemTime::now();
    if preflight::is_needed(&scanned, &host, &cluster, env, cache.holds(&overlay), now) {
        preflight::run(&host, &cluster, &scanned, env)?;
    }
    // Stored only now: a cluster whose overlay is in the cache was not refused before.
    let overlay = cache.store(&overlay, now)?;

    let mut raw = RawPath::Joined;
    if rewrite::uses_raw(&scanned).is_some() {
        let minor = kubectl.minor_version(&rewrite::kubeconfig_list(&host, &overlay)?)?;
        raw = RawPath::of_minor_version(minor);
    }
    Ok(kubectl.run(rewrite::rewrite(scanned, &host, &cluster, &overlay, raw)?)?)
}

#[derive(Debug, thiserror::Error)]
#[error("no cluster chosen")]
struct NoCluster;

impl Explain for NoCluster {
    fn hint(&self) -> Option<String> {
        Some(format!(
            "choose one by --cluster=NAME or {}; `kubectl mc clusters` lists them, `kubectl mc --help` says more",
            env::CLUSTER
        ))
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write the overlay kubeconfig")]
struct Overlay(#[source] serde_json::Error);

impl Explain for Overlay {}
