//! The test bed that all tests of one run share.

use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};
use testbed::{Bed, Cluster, Sidecar};

use crate::api::Api;

/// The running bed, or an error that says how to start one.
pub fn bed() -> Result<&'static Bed> {
    static BED: OnceLock<Result<Bed, String>> = OnceLock::new();
    BED.get_or_init(open).as_ref().map_err(|message| anyhow!("{message}"))
}

/// The member called `name`.
pub fn member(name: &str) -> Result<&'static Cluster> {
    bed()?
        .members
        .get(name)
        .with_context(|| format!("the bed has no member {name}: start it with --members 3"))
}

/// The cluster called `name`, which is not registered on the host.
pub fn spare(name: &str) -> Result<&'static Cluster> {
    bed()?
        .spares
        .get(name)
        .with_context(|| format!("the bed has no spare cluster {name}: start it with --spare {name}"))
}

/// The sidecar of the bed.
pub fn sidecar() -> Result<&'static Sidecar> {
    bed()?.sidecar.as_ref().context("the bed has no sidecar: start it with --sidecar target/debug/mc-sidecar")
}

/// The host's API, as its administrator.
pub fn host() -> Result<Api> {
    Api::admin(&bed()?.host)
}

/// kubectl of the bed's Kubernetes.
pub fn kubectl() -> Result<PathBuf> {
    Ok(bed()?.bin.join("kubectl"))
}

/// The namespace of the sidecar and of the members' Secrets on the host.
pub const SYSTEM: &str = "kubectl-mc-system";

fn open() -> Result<Bed, String> {
    if std::env::var_os("TESTBED").is_none() {
        return Err("TESTBED is not set, these tests need a running test bed: run `make test`".to_owned());
    }
    Bed::from_env().map_err(|error| format!("{error:#}"))
}
