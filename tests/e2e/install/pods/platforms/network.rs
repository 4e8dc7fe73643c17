//! The networks between a host's control plane and its pods on platforms. The test runs in the control
//! plane's network.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use harness::bed::bed;
use harness::wait::{SOON, eventually};

use crate::install::pods::in_pods::Scene;

/// An overlay network: pods send from their node's address, and their own addresses have no route from
/// outside.
pub(super) struct Overlay {
    pub(super) node: IpAddr,
    pods: String,
    /// The command that enters the node's network.
    within: String,
}

impl Overlay {
    pub(super) fn over(scene: &Scene) -> Result<Self> {
        let (pods, node) = pods(scene)?;
        let netns = bed()?.netns.as_deref().context("the bed has no network of its own")?;
        let within = format!("nsenter --net=/run/netns/{netns}-{}", scene.host.cluster.name);
        let masquerade = format!(
            "table ip e2e-overlay {{\n chain out {{\n type nat hook postrouting priority 100; \
             ip saddr {pods} ip daddr != {pods} masquerade; }}\n}}\n"
        );
        let overlay = Self { node, pods, within };
        system(&format!("{} nft -f -", overlay.within), &masquerade)?;
        system(&format!("ip route replace unreachable {}", overlay.pods), "")?;
        Ok(overlay)
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let Self { node, pods, within } = self;
        let _ = system(&format!("ip route replace {pods} via {node}"), "");
        let _ = system(&format!("{within} nft delete table ip e2e-overlay"), "");
    }
}

/// A firewall that lets a control plane connect only to the ports that GKE opens on private nodes.
pub(super) struct Firewall;

impl Firewall {
    pub(super) fn before(scene: &Scene) -> Result<Self> {
        let (pods, _) = pods(scene)?;
        let rules = format!(
            "table inet e2e-gke {{ chain out {{ type filter hook output priority 0; policy accept; \
             ip daddr {pods} tcp flags & (syn | ack) == syn tcp dport != {{ 443, 10250 }} reject with tcp reset; }}\n}}\n"
        );
        system("nft -f -", &rules)?;
        Ok(Self)
    }
}

impl Drop for Firewall {
    fn drop(&mut self) {
        let _ = system("nft delete table inet e2e-gke", "");
    }
}

/// The address range of the host's pods, and the node that routes to it.
fn pods(scene: &Scene) -> Result<(String, IpAddr)> {
    let nodes = scene.api()?.get("/api/v1/nodes")?;
    let node = nodes["items"][0]["status"]["addresses"][0]["address"].as_str().context("no address")?;
    let routes = system("ip route", "")?;
    let leads_there = |line: &&str| line.contains(&format!(" via {node} "));
    let route = routes.lines().find(leads_there).with_context(|| format!("no route: {routes}"))?;
    Ok((route.split(' ').next().unwrap_or_default().to_owned(), node.parse()?))
}

/// A route to a Service of the host from outside, through its node, as load balancers and pods of that
/// cluster have.
pub(crate) struct WayToService {
    pub(crate) address: IpAddr,
    node: IpAddr,
}

impl WayToService {
    pub(crate) fn open(scene: &Scene, namespace: &str) -> Result<Self> {
        let path = format!("/api/v1/namespaces/{namespace}/services/mc-sidecar");
        let service = scene.api()?.get(&path)?;
        let address = service["spec"]["clusterIP"].as_str().context("no address")?.parse()?;
        Self::to(scene, address)
    }

    /// Opens a route to an address of a Service, as a load balancer has.
    pub(crate) fn to(scene: &Scene, address: IpAddr) -> Result<Self> {
        let (_, node) = pods(scene)?;
        system(&format!("ip route replace {address} via {node}"), "")?;
        Ok(Self { address, node })
    }
}

impl Drop for WayToService {
    fn drop(&mut self) {
        let _ = system(&format!("ip route del {} via {}", self.address, self.node), "");
    }
}

/// The address at which the host's kube-apiserver finds its one sidecar.
pub(crate) fn endpoints(scene: &Scene, namespace: &str) -> Result<Vec<SocketAddr>> {
    let selector = "labelSelector=kubernetes.io%2Fservice-name%3Dmc-sidecar";
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?{selector}");
    let api = scene.api()?;
    eventually("there is one sidecar", SOON, || {
        let slices = api.get(&path)?;
        let mut found = Vec::new();
        for slice in slices["items"].as_array().into_iter().flatten() {
            let port = slice["ports"][0]["port"].as_u64().context("no port")?;
            for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
                let address = endpoint["addresses"][0].as_str().context("no address")?;
                found.push(SocketAddr::new(address.parse()?, u16::try_from(port)?));
            }
        }
        Ok((found.len() == 1).then_some(found))
    })
}

/// Runs a program of the system.
fn system(line: &str, input: &str) -> Result<String> {
    // On Debian, these programs are not in a user's PATH.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).env("PATH", path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {line}"))?;
    child.stdin.take().context("no standard input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{line}: {said}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
