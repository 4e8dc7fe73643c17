//! The programs of the previous version work with today's programs, in each combination that occurs
//! during an upgrade: plugin and sidecar, agent and sidecar, and two replicas of a sidecar.
//! `tests/previous/build.sh` builds them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use harness::bed::{SYSTEM, member, sidecar};
use harness::caller::Caller;
use harness::http1::{SIDECAR_NAME, member_path};
use harness::own_agent::{self, OwnAgent, own_data};
use harness::own_fleet::OwnFleet;
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::scene::Scene;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};

use crate::install::pods::in_pods::program;

/// A file of the previous version: `kubectl-mc`, `mc-sidecar` or `chart`.
pub(crate) fn previous(name: &str) -> Result<PathBuf> {
    let target = program().ancestors().nth(2).context("no target folder")?;
    let file = target.join("previous").join(name);
    ensure!(file.exists(), "not built: {}: run tests/previous/build.sh", file.display());
    Ok(file)
}

#[test]
fn plugin_works_with_todays_sidecar() -> Result<()> {
    let scene = Scene::new("previous-plugin")?;
    let plugin = Tool::plugin(&previous("kubectl-mc")?, &administrator(&scene)?)?;
    everything_works(&plugin, &scene, "m1")
}

#[test]
fn todays_plugin_works_with_the_sidecar() -> Result<()> {
    let scene = Scene::new("previous-sidecar")?;
    let old = previous("mc-sidecar")?;
    let own = OwnSidecar::with(&Difference { program: Some(&old), ..Difference::default() })?;
    let ca = sidecar()?.ca_certificate.clone();
    // The sidecar in place of the host.
    let caller = administrator(&scene)?.edit(|config| {
        let cluster = &mut config["clusters"][0]["cluster"];
        cluster["server"] = own.sidecar.url.clone().into();
        cluster["certificate-authority"] = ca.display().to_string().into();
        cluster["tls-server-name"] = SIDECAR_NAME.into();
    })?;
    everything_works(&Tool::plugin(program(), &caller)?, &scene, "m1")
}

#[test]
fn agent_works_with_todays_sidecar() -> Result<()> {
    let scene = Scene::new("previous-agent")?;
    let (cluster, old) = ("e2e-previous-agent", previous("mc-sidecar")?);
    own_agent::register(cluster, SYSTEM, &own_data(member("m1")?)?)?;
    let difference = own_agent::Difference { program: Some(&old), ..own_agent::Difference::default() };
    let agent = OwnAgent::start(cluster, member("m1")?, &difference)?;
    own_agent::until_connected(cluster)?;
    let plugin = Tool::plugin(program(), &administrator(&scene)?)?;
    everything_works(&plugin, &scene, &agent.cluster)
}

/// During a rollout, a replica of each version asks the other for an agent's tunnel.
#[test]
fn replicas_of_both_versions_find_each_others_agents() -> Result<()> {
    let old = previous("mc-sidecar")?;
    for (tag, has, asks) in [("old", Some(old.as_path()), None), ("new", None, Some(old.as_path()))] {
        let (fleet, files) = (OwnFleet::new(&format!("previous-peer-{tag}"))?, tempfile::tempdir()?);
        own_agent::register(&fleet.namespace, &fleet.namespace, &own_data(member("m1")?)?)?;
        let replica = |program: Option<&Path>, flag: &str| {
            fleet.replica_with(files.path(), &Difference { program, flags: &[flag], ..Difference::default() })
        };
        let has = replica(has, "--controllers=")?;
        let asks = replica(asks, &format!("--peers={}", has.sidecar.url.trim_start_matches("https://")))?;
        let to_sidecar = own_agent::Difference::to_sidecar(&has.sidecar.url)?;
        let agent = OwnAgent::start(&fleet.namespace, member("m1")?, &to_sidecar)?;
        agent.until_logged("connected")?;
        let admin = Caller::certificate("e2e-previous-peers", &["system:masters"])?;
        let path = member_path(&agent.cluster, "/api/v1/namespaces/default");
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        for replica in [&has, &asks] {
            // The replica may have asked before the tunnel was open.
            eventually("the member answers", SOON, || {
                let endpoint = replica.endpoint(admin.certificate.as_deref())?;
                let answer = endpoint.exchange(request.as_bytes())?;
                ensure!(answer.status() == 200, "{tag}: {}: {}", answer.status(), answer.text());
                Ok(Some(()))
            })?;
        }
        fleet.until(&agent.cluster, "Connected", "True", "AgentConnected")?;
    }
    Ok(())
}

fn administrator(scene: &Scene) -> Result<Caller> {
    Caller::certificate(&format!("{}-admin", scene.name), &["system:masters"])
}

/// Does what people do all day, on a cluster that is the scene's member under some name.
fn everything_works(plugin: &Tool, scene: &Scene, cluster: &str) -> Result<()> {
    scene.pod("web", "echo said; sleep 3600")?;
    let one = plugin.clone().with(&["-C", cluster, "-n", &scene.name]);
    ensure!(one.ok(&["get", "pods", "-o", "name"])? == "pod/web\n");
    ensure!(one.clone().env("KUBECTL_MC_DIRECT", "0").ok(&["get", "pods", "-o", "name"])? == "pod/web\n");
    eventually("the log is written", SOON, || Ok((one.ok(&["logs", "web"])? == "said\n").then_some(())))?;
    let echoed = one.run_with_input(&["exec", "-i", "web", "--", "cat"], b"sent\n")?.success()?;
    ensure!(echoed == "sent\n", "{echoed:?}");
    ensure!(one.run(&["exec", "web", "--", "sh", "-c", "exit 7"])?.code == 7);
    let refused = one.run(&["get", "pod", "missing"])?;
    ensure!(refused.code == 1 && refused.stderr.contains("\"missing\" not found"), "{refused:?}");
    let clusters = format!("{cluster},m2");
    let several = plugin.ok(&["-C", &clusters, "get", "namespace", "default", "-o", "json"])?;
    ensure!(several.matches("\"name\": \"default\"").count() == 2, "{several}");
    eventually("the cluster is Ready", 2 * SOON, || {
        let listed = plugin.ok(&["clusters", cluster])?;
        ensure!(listed.contains(cluster) && listed.contains("True"), "{listed}");
        Ok(Some(()))
    })
}
