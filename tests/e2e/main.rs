//! End-to-end tests on a real Kubernetes: a folder for each area, a file for each subject. All tests share one
//! test bed, in any order and in parallel; each creates its own namespace, users and members. `make test` starts
//! the bed.

mod agents;
mod faults;
mod fleet;
mod identity;
mod install;
mod members;
mod plugin;
mod requests;
mod scale;
mod upgrades;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::scene::Scene;
use harness::tool::Tool;

/// The plugin under test, run by a caller.
fn plugin(caller: &Caller) -> Result<Tool> {
    Tool::plugin(Path::new(env!("CARGO_BIN_EXE_kubectl-mc")), caller)
}

/// The plugin under test at the scene's member and namespace, run by a caller.
fn plugin_in(scene: &Scene, caller: &Caller) -> Result<Tool> {
    Ok(plugin(caller)?.with(&[&format!("--cluster={}", scene.member), "--namespace", &scene.name]))
}

/// A duration or count for a test, from an environment variable. The long runs of `make soak` set
/// it.
fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(otherwise)
}

/// A pause of PAUSE_SECONDS (70). It is longer than the minute after which a short answer that is
/// not read ends.
fn pause() -> Duration {
    Duration::from_secs(number("PAUSE_SECONDS", 70))
}

/// The path of a program that `tests/clients/install.sh` has installed.
fn installed(path: &str) -> Result<PathBuf> {
    let target =
        Path::new(env!("CARGO_BIN_EXE_kubectl-mc")).ancestors().nth(2).context("no target folder")?;
    let path = target.join("clients").join(path);
    ensure!(path.exists(), "not installed: {}: run tests/clients/install.sh", path.display());
    Ok(path)
}
