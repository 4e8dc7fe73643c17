//! Registers members whose agents dial the sidecar: each has a MemberCluster, a Secret, and an
//! account with a token on the host for its agent.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result, anyhow};
use harness::api::Session;
use harness::own_agent::data_of;
use harness::own_fleet::OwnFleet;
use harness::scene::EVERY_VERB;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::site::Site;

pub(super) struct Registered {
    pub(super) fleet: OwnFleet,
    pub(super) names: Vec<String>,
    /// Lines of a member's name and its agent's token.
    pub(super) tokens: PathBuf,
    pub(super) files: TempDir,
}

impl Registered {
    /// All of them are the same zero-cost member under different names.
    pub(super) fn new(site: &Site, count: usize) -> Result<Self> {
        let (fleet, files) = (OwnFleet::new("bench-agents")?, tempfile::tempdir()?);
        site.scene.let_in(&site.caller, &[], EVERY_VERB)?;
        let names: Vec<_> = (0..count).map(|number| format!("agent-{number:04}")).collect();
        let mut data = data_of("probe")?;
        data["via"] = "agent".into();
        let lines = thread::scope(|scope| {
            let parts = names.chunks(count.div_ceil(REGISTRARS));
            let registrars: Vec<_> = parts
                .map(|names| {
                    let (fleet, data) = (&fleet, &data);
                    scope.spawn(move || {
                        let (mut session, mut lines) = (fleet.host.session()?, String::new());
                        for name in names {
                            writeln!(lines, "{name} {}", register(&mut session, fleet, name, data)?)?;
                        }
                        Ok::<_, anyhow::Error>(lines)
                    })
                })
                .collect();
            let lines = registrars
                .into_iter()
                .map(|registrar| registrar.join().map_err(|_| anyhow!("a registrar panicked"))?);
            lines.collect::<Result<String>>()
        })?;
        let tokens = files.path().join("tokens");
        fs::write(&tokens, lines)?;
        Ok(Self { fleet, names, tokens, files })
    }
}

/// Registers a member, and returns the token of its agent.
fn register(host: &mut Session<'_>, fleet: &OwnFleet, name: &str, data: &Value) -> Result<String> {
    host.create(
        &format!("/api/v1/namespaces/{}/secrets", fleet.namespace),
        &json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{name}.member")},
            "type": "fleet.kubectl-mc.dev/member", "stringData": data,
        }),
    )?;
    host.create(
        MEMBER_CLUSTERS,
        &json!({
            "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster",
            "metadata": {"name": name}, "spec": {},
        }),
    )?;
    host.create(
        ACCOUNTS,
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}),
    )?;
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400},
    });
    let made = host.create(&format!("{ACCOUNTS}/{name}/token"), &request)?;
    let token = made["status"]["token"].as_str().context("no token")?.to_owned();
    // With this status, the bed's sidecar leaves the member to the sidecars in this namespace.
    let claimed = json!({"status": {"namespace": fleet.namespace, "conditions": []}});
    host.merge(&format!("{MEMBER_CLUSTERS}/{name}/status"), &claimed)?;
    Ok(token)
}

const ACCOUNTS: &str = "/api/v1/namespaces/kubectl-mc-agents/serviceaccounts";
const MEMBER_CLUSTERS: &str = "/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters";
const REGISTRARS: usize = 4;
