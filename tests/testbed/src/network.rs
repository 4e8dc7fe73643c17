//! Creates the bed's network: a namespace with one bridge, so that no port conflicts and the machine's
//! network is not touched. Each node also has its own namespace, like a machine: two kube-proxies
//! cannot share one, and pods are routed to it.

use std::fs::{self, File};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::plan::{BRIDGE, ClusterPlan, Plan, SIDECAR};
use crate::process::with_system_programs;

/// Creates the bed's namespace and those of its nodes.
pub(crate) fn create(id: &str, plan: &Plan) -> Result<()> {
    ip(None, &format!("netns add {id}"))?;
    let mut lines = vec!["link set lo up".to_owned(), "link add bridge0 type bridge".to_owned()];
    let clusters = plan.clusters.iter().map(ClusterPlan::bridge_address);
    for address in [BRIDGE, SIDECAR].into_iter().chain(clusters) {
        lines.push(format!("addr add {address}/16 dev bridge0"));
    }
    lines.push("link set bridge0 up".to_owned());
    ip(Some(id), &lines.join("\n"))?;
    for cluster in plan.clusters.iter().filter(|cluster| cluster.node) {
        add_node(id, cluster)?;
    }
    Ok(())
}

fn add_node(id: &str, cluster: &ClusterPlan) -> Result<()> {
    let (netns, link) = (node_namespace(id, &cluster.name), format!("node{}", cluster.index));
    let (address, pods) = (cluster.node_address(), cluster.pod_range());
    ip(None, &format!("netns add {netns}"))?;
    ip(
        Some(id),
        &format!(
            "link add {link} type veth peer name eth0 netns {netns}\n\
             link set {link} master bridge0 up\n\
             route add {pods} via {address}"
        ),
    )?;
    ip(
        Some(&netns),
        &format!(
            "link set lo up\naddr add {address}/16 dev eth0\nlink set eth0 up\nroute add default via {BRIDGE}"
        ),
    )?;
    let forward = ["--net=/run/netns/", &netns].concat();
    let status = Command::new("nsenter")
        .args([&forward, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
        .status()?;
    if !status.success() {
        bail!("cannot let {netns} forward packets: {status}");
    }
    Ok(())
}

/// Moves this thread, and everything that it starts from now on, into a namespace.
pub(crate) fn enter(id: &str) -> Result<()> {
    let path = format!("/run/netns/{id}");
    let namespace = File::open(&path).with_context(|| format!("no network namespace: {path}"))?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("cannot enter: {path}"))
}

/// Removes the bed's namespaces; their links and rules are removed with them.
pub(crate) fn remove(id: &str) -> Result<()> {
    let Ok(entries) = fs::read_dir("/run/netns") else { return Ok(()) };
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if belongs(&name, id) {
            ip(None, &format!("netns del {name}"))?;
        }
    }
    Ok(())
}

/// The name of a node's namespace.
pub(crate) fn node_namespace(id: &str, cluster: &str) -> String {
    format!("{id}-{cluster}")
}

fn belongs(namespace: &str, id: &str) -> bool {
    namespace.strip_prefix(id).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Whether this user can create network namespaces.
pub(crate) fn namespaces() -> bool {
    cfg!(target_os = "linux") && rustix::process::geteuid().is_root()
}

/// The ports of one cluster's programs: fixed ones in a namespace, otherwise any free ports.
pub(crate) struct Ports {
    pub(crate) apiserver: SocketAddr,
    pub(crate) etcd: SocketAddr,
    pub(crate) etcd_peer: SocketAddr,
    pub(crate) controller_manager: SocketAddr,
    pub(crate) scheduler: SocketAddr,
}

impl Ports {
    pub(crate) fn of(cluster: &ClusterPlan, loopback: bool) -> Result<Self> {
        let local = |port: u16| match loopback {
            true => free_port(),
            false => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port + 10 * u16::from(cluster.index)))),
        };
        let apiserver: (IpAddr, u16) = match loopback {
            true => (Ipv4Addr::LOCALHOST.into(), free_port()?.port()),
            false => (cluster.bridge_address().into(), 6443),
        };
        Ok(Self {
            apiserver: apiserver.into(),
            etcd: local(2379)?,
            etcd_peer: local(2380)?,
            controller_manager: local(11257)?,
            scheduler: local(12259)?,
        })
    }
}

/// A port of 127.0.0.1 on which no process is listening at the moment.
pub(crate) fn free_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Runs lines of `ip`'s batch language, in a namespace or in this one.
fn ip(netns: Option<&str>, lines: &str) -> Result<()> {
    let mut command = Command::new("ip");
    if let Some(netns) = netns {
        command.args(["-n", netns]);
    }
    let mut child = with_system_programs(&mut command)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start: ip")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(lines.as_bytes())?;
        stdin.write_all(b"\n")?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("ip: {}: {}", String::from_utf8_lossy(&output.stderr).trim(), lines.replace('\n', "; "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bed_owns_only_its_namespace_and_those_of_its_nodes() {
        assert!(belongs("mc-12ab34", "mc-12ab34"));
        assert!(belongs("mc-12ab34-m1", "mc-12ab34"));
        assert!(!belongs("mc-12ab345", "mc-12ab34"));
        assert!(!belongs("mc-ffffff", "mc-12ab34"));
    }
}
