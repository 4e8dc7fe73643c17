//! `kubectl mc install --run-on` runs a host's sidecars as pods of another cluster. Each route
//! between the host and the sidecars is tested.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result, ensure};
use harness::bed::{SYSTEM, spare};
use harness::leftovers::Clean;
use harness::relay::Relay;
use harness::spare_host::{SIDECAR, listing};
use harness::tool::{Output, Tool};
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};
use testbed::Cluster;

use crate::install::pods::in_pods::{Scene, program};
use crate::install::pods::platforms::network::WayToService;

#[test]
fn endpoint_leads_a_host_to_sidecars_elsewhere() -> Result<()> {
    let fleet = Fleet::begin()?;
    let before = fleet.everything()?;
    let told = fleet.install(&["--host-network", &fleet.endpoint()?])?.success()?;
    ensure!(told.contains("deployment.apps/mc-sidecar created"), "{told}");
    fleet.join_and_use(&[])?;
    fleet.take_away()?;
    ensure!(fleet.everything()? == before, "something is left");
    Ok(())
}

/// The host uses the name of the other cluster's Service, as a kube-apiserver in a pod there can.
#[test]
fn external_name_leads_a_host_to_sidecars_elsewhere() -> Result<()> {
    let fleet = Fleet::begin()?;
    let name = format!("mc-sidecar.{SYSTEM}.svc.cluster.local");
    let restarted = Restarted::with_hosts(fleet.host.cluster)?;
    let install = fleet.admin.start(&Fleet::arguments(&[&format!("--external-name={name}")]))?;
    let way = eventually("there is the Service", SOON, || WayToService::open(&fleet.runs, SYSTEM).map(Some))?;
    restarted.knows(way.address, &name)?;
    install.finish(8 * SOON)?.success()?;
    fleet.join_and_use(&[])
}

/// The administrator's kubeconfig names a port of the administrator's machine.
#[test]
fn host_server_leads_sidecars_elsewhere_to_the_host() -> Result<()> {
    let mut fleet = Fleet::begin()?;
    let relay = Relay::at(IpAddr::V4(Ipv4Addr::LOCALHOST), &fleet.host.cluster.server)?;
    let mut config: Value = serde_json::from_slice(&std::fs::read(&fleet.host.cluster.kubeconfig)?)?;
    config["clusters"][0]["cluster"]["server"] = format!("https://{}", relay.address).into();
    let kubeconfig = fleet.admin.home().join("host.kubeconfig");
    std::fs::write(&kubeconfig, config.to_string())?;
    let both = std::env::join_paths([&kubeconfig, &fleet.runs.host.cluster.kubeconfig])?;
    fleet.admin = fleet.admin.env("KUBECONFIG", both);
    let endpoint = fleet.endpoint()?;
    let install = ["--host-network", &endpoint];
    fleet.install(&install)?.failure(&["a loopback address", "--host-server=https://"])?;
    let server = format!("--host-server={}", fleet.host.cluster.server);
    fleet.install(&[&install[..], &[&server]].concat())?.success()?;
    fleet.join_and_use(&[])
}

/// A host without nodes, and the cluster that runs its sidecars and is also its member, as in Karmada.
pub(super) struct Fleet {
    pub(super) host: Clean,
    pub(super) runs: Scene,
    /// The administrator of both; the host comes first.
    pub(super) admin: Tool,
}

impl Fleet {
    pub(super) fn begin() -> Result<Self> {
        // The lock of this cluster covers both.
        let runs = Scene::take()?;
        let host = Clean::take(spare("s3")?)?;
        ensure!(host.cluster.node.is_none(), "the host has a node");
        let kubectl = Tool::admin(runs.host.cluster)?;
        kubectl.ok(&["create", "namespace", SHOP])?;
        kubectl.run_with_input(&["create", "-f", "-"], shell().to_string().as_bytes())?.success()?;
        let admin = Tool::plugin_at(program(), &[host.cluster, runs.host.cluster])?;
        Ok(Self { host, runs, admin })
    }

    /// Every object of both clusters.
    fn everything(&self) -> Result<[BTreeSet<String>; 2]> {
        Ok([listing(self.host.cluster)?, listing(self.runs.host.cluster)?])
    }

    pub(super) fn install(&self, more: &[&str]) -> Result<Output> {
        self.admin.run(&Self::arguments(more))
    }

    fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
        let run_on =
            ["install", "--image", SIDECAR, "--image-pull-policy=Never", "--replicas=1", "--run-on=s1"];
        [&run_on[..], more].concat()
    }

    /// The flag with the address of the node that runs the sidecars.
    pub(super) fn endpoint(&self) -> Result<String> {
        let nodes = self.runs.api()?.get("/api/v1/nodes")?;
        let address = nodes["items"][0]["status"]["addresses"][0]["address"].as_str();
        Ok(format!("--endpoint={}:10260", address.context("no address")?))
    }

    pub(super) fn join_and_use(&self, more: &[&str]) -> Result<()> {
        self.admin.ok(&[&["join", NAME, "--member-context=s1"], more].concat())?;
        let names = self.admin.ok(&["--cluster", NAME, "get", "namespaces", "-o", "name"])?;
        ensure!(names.contains(&format!("namespace/{SHOP}\n")), "it is not the member: {names}");
        let ready = ["wait", "-n", SHOP, "--for=condition=Ready", "pod/shell", "--timeout=60s"];
        Tool::admin(self.runs.host.cluster)?.ok(&ready)?;
        let cat = ["--cluster", NAME, "exec", "-i", "-n", SHOP, "shell", "--", "cat"];
        let echoed = self.admin.run_with_input(&cat, b"there and back")?.success()?;
        ensure!(echoed == "there and back", "{echoed}");
        Ok(())
    }

    pub(super) fn take_away(&self) -> Result<()> {
        self.admin.ok(&["unjoin", NAME, "--member-context=s1", "--yes"])?;
        self.admin.ok(&["uninstall", "--run-on=s1"]).map(drop)
    }
}

/// A kube-apiserver that resolves names and connects to Services by name, until dropped.
struct Restarted(&'static Cluster);

impl Restarted {
    fn with_hosts(cluster: &'static Cluster) -> Result<Self> {
        let restarted = Self(cluster);
        cluster.restart_apiserver_with_hosts("", &["--enable-aggregator-routing=false"])?;
        Ok(restarted)
    }

    fn knows(&self, address: IpAddr, name: &str) -> Result<()> {
        Ok(std::fs::write(self.0.dir.join("hosts"), format!("{address} {name}\n"))?)
    }
}

impl Drop for Restarted {
    fn drop(&mut self) {
        let _ = self.0.restart_apiserver();
    }
}

fn shell() -> Value {
    let container = json!({
        "name": "main", "image": "testbed.local/busybox:1", "imagePullPolicy": "Never", "command": ["sleep", "600"],
    });
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shell", "namespace": SHOP},
        "spec": {
            "containers": [container], "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
        },
    })
}

pub(super) const NAME: &str = "near";
pub(super) const SHOP: &str = "shop";
