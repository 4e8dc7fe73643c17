//! The promises, kept on a real Kubernetes: one file for each subject, one test for each
//! promise. All tests share one bed, in any order and at the same time; each brings its
//! own namespace, users and members. `make test` starts the bed.

mod access;
mod access_diff;
mod anonymous;
mod any_user;
mod attach;
mod audit_id;
mod authority;
mod authorization;
mod bounds;
mod cert_manager;
mod clients;
mod clusters;
mod copy;
mod credentials;
mod crowds;
mod deadlines;
mod discovery;
mod drift;
mod exec;
mod fleet;
mod front_proxy;
mod host_faults;
mod hostile;
mod http2;
mod identity;
mod identity_attacks;
mod install;
mod join;
mod joined;
mod killed_pods;
mod kubeconfig;
mod kubectl_versions;
mod leadership;
mod learnt;
mod logs;
mod many_clusters;
mod member_answers;
mod member_changes;
mod member_headers;
mod member_health;
mod member_reach;
mod member_refusals;
mod member_tokens;
mod member_ways;
mod messages;
mod native_get;
mod native_logs;
mod oidc;
mod old_members;
mod platforms;
mod plugin;
mod pool;
mod port_forward;
mod process;
mod promises;
mod protocol;
mod refused_upgrades;
mod removal;
mod renewed_login;
mod revocation;
mod routing;
mod run_on;
mod several_clusters;
mod shutdown;
mod slow_members;
mod soak;
mod stalled_watches;
mod stolen_impersonator;
mod stolen_manager;
mod streams;
mod targets;
mod tls;
mod tunnels;
mod unified_auth;
mod vanished;
mod verbs;
mod walkthrough;

use std::path::{Path, PathBuf};

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

/// Where `tests/clients/install.sh` has put what it installs.
fn installed(path: &str) -> Result<PathBuf> {
    let target =
        Path::new(env!("CARGO_BIN_EXE_kubectl-mc")).ancestors().nth(2).context("no target folder")?;
    let path = target.join("clients").join(path);
    ensure!(path.exists(), "not installed: {}: run tests/clients/install.sh", path.display());
    Ok(path)
}
