//! Starts a control plane: etcd, kube-apiserver, kube-controller-manager, and kube-scheduler if there is a
//! node.

mod flags;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::bed::Cluster;
use crate::certificates::{self, Authority};
use crate::kubeconfig::{self, User};
use crate::kubectl::Kubectl;
use crate::network::Ports;
use crate::plan::{ClusterPlan, HOST};
use crate::probe::Probe;
use crate::process::{self, Daemon, Launch};
use crate::programs;

use flags::{apiserver_args, controller_manager_args, etcd_args, scheduler_args, takes_id_tokens};

/// The settings that the control planes of one bed share.
pub(crate) struct Site<'a> {
    pub(crate) id: &'a str,
    pub(crate) dir: &'a Path,
    pub(crate) loopback: bool,
    /// The tracing configuration of the kube-apiservers and the sidecar.
    pub(crate) tracing: Option<PathBuf>,
}

impl Site<'_> {
    pub(crate) fn launch(&self, dir: &Path, program: PathBuf, args: Vec<String>) -> Launch {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Launch {
            bed: self.id.to_owned(),
            name,
            dir: dir.to_owned(),
            program,
            args,
            within: Vec::new(),
            waits: false,
        }
    }

    /// The flag that a kube-apiserver and the sidecar share.
    pub(crate) fn tracing_flag(&self) -> Option<String> {
        self.tracing.as_ref().map(|file| format!("--tracing-config-file={}", file.display()))
    }

    pub(crate) fn kubectl(&self, kubeconfig: &Path) -> Kubectl {
        Kubectl {
            bed: self.id.to_owned(),
            program: programs::path(programs::DEFAULT_VERSION, "kubectl"),
            kubeconfig: kubeconfig.to_owned(),
            home: self.dir.to_owned(),
        }
    }
}

/// Starts it and waits until the apiserver is ready.
pub(crate) fn start(site: &Site<'_>, plan: &ClusterPlan) -> Result<Cluster> {
    let dir = site.dir.join(&plan.name);
    fs::create_dir_all(&dir)?;
    let ports = Ports::of(plan, site.loopback)?;
    let server = format!("https://{}", ports.apiserver);
    let authority = certificates(plan, &ports, &dir, &server)?;
    fs::write(dir.join("audit-policy.yaml"), AUDIT_POLICY)?;
    if plan.name == HOST {
        fs::write(dir.join("tokens.csv"), TOKENS)?;
    }
    if takes_id_tokens(plan) {
        fs::write(dir.join(AUTHENTICATION), NO_ISSUERS)?;
    }

    let etcd = programs::path(programs::DEFAULT_VERSION, "etcd");
    site.launch(&dir, etcd, etcd_args(&dir, &ports)).start()?;
    let apiserver = programs::path(&plan.version, APISERVER);
    let mut args = apiserver_args(site.loopback, plan, &ports, &dir);
    args.extend(site.tracing_flag());
    // The kube-apiservers of spare clusters serve one test at a time.
    let apiserver = Launch { waits: plan.spare, ..site.launch(&dir, apiserver, args) };
    let mut apiserver = apiserver.start()?;
    ready(&mut apiserver, ports.apiserver, &authority.certificate)?;

    let manager = programs::path(&plan.version, "kube-controller-manager");
    site.launch(&dir, manager, controller_manager_args(&ports, &dir)).start()?;
    if plan.node {
        let scheduler = programs::path(&plan.version, "kube-scheduler");
        site.launch(&dir, scheduler, scheduler_args(&ports, &dir)).start()?;
    }
    Ok(Cluster {
        name: plan.name.clone(),
        version: plan.version.clone(),
        server,
        kubeconfig: dir.join("admin.kubeconfig"),
        ca_certificate: authority.certificate,
        ca_key: authority.key,
        audit_log: dir.join("audit.log"),
        node: plan.node.then(|| plan.name.clone()),
        etcd: format!("http://{}", ports.etcd),
        karmada: None,
        dir,
    })
}

/// Waits until the controllers run. The default namespace then has its service account, which pods
/// need.
pub(crate) fn controllers_work(kubectl: &Kubectl) -> Result<()> {
    kubectl.run(&["wait", "--for=create", "serviceaccount/default", "--timeout=120s"]).map(drop)
}

pub(crate) fn stop_apiserver(dir: &Path) -> Result<()> {
    process::stop(dir, APISERVER).map(drop)
}

/// `hosts`: the names that it resolves in addition to the DNS (hosts(5)), instead of the machine's
/// own file.
pub(crate) fn restart_apiserver(
    dir: &Path,
    server: &str,
    ca: &Path,
    hosts: Option<&str>,
    flags: &[&str],
) -> Result<()> {
    let mut launch = process::stop(dir, APISERVER)?;
    launch.within.clear();
    if let Some(hosts) = hosts {
        launch.find_hosts(hosts)?;
    }
    let mut apiserver = launch.start_with(flags)?;
    let address = server.trim_start_matches("https://").parse().context("not an address")?;
    ready(&mut apiserver, address, ca)
}

/// The name of a cluster's machine in the network that the machines share, as kind names them.
pub(crate) fn machine_name(cluster: &str) -> String {
    format!("{cluster}-control-plane")
}

/// The name of a cluster's certificate authority.
pub(crate) fn authority_name(cluster: &str) -> String {
    format!("{cluster}-ca")
}

fn ready(apiserver: &mut Daemon, address: SocketAddr, ca: &Path) -> Result<()> {
    let probe = Probe::https(address, ca)?;
    apiserver.until_ready(|| Ok(probe.ok("/readyz")))
}

fn certificates(plan: &ClusterPlan, ports: &Ports, dir: &Path, server: &str) -> Result<Authority> {
    let authority = Authority::create(&authority_name(&plan.name), dir, "ca")?;
    let front_proxy = Authority::create(&format!("{}-front-proxy-ca", plan.name), dir, "front-proxy-ca")?;
    front_proxy.client_files("front-proxy-client", &[], dir, "front-proxy-client")?;
    let (address, machine) = (ports.apiserver.ip().to_string(), machine_name(&plan.name));
    // The last two are as in kind and k3s: kubeconfigs from there name the machine on which they are made.
    let mut names = vec![
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "10.0.0.1",
        "localhost",
        machine.as_str(),
        "127.0.0.1",
    ];
    names.extend(Some(address.as_str()).filter(|address| *address != "127.0.0.1"));
    authority.serving_files(&names, dir, "apiserver")?;
    authority.client_files(KUBELET_CLIENT, &[], dir, "kubelet-client")?;
    certificates::signing_files(dir, "service-account")?;

    for (stem, user, groups) in [
        ("admin", "kubernetes-admin", &["system:masters"] as &[&str]),
        ("kube-controller-manager", "system:kube-controller-manager", &[]),
        ("kube-scheduler", "system:kube-scheduler", &[]),
    ] {
        let certificate = authority.client(user, groups)?;
        let path = dir.join(format!("{stem}.kubeconfig"));
        kubeconfig::write(
            &path,
            &plan.name,
            server,
            &authority.certificate,
            User::Certificate(&certificate),
        )?;
    }
    Ok(authority)
}

/// The process of a cluster's kube-apiserver.
pub(crate) fn apiserver_pid(dir: &Path) -> Result<u32> {
    process::recorded_pid(dir, APISERVER)
}

const APISERVER: &str = "kube-apiserver";
/// The apiserver's user at kubelets.
pub(crate) const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// All requests except for reads of leases. The metadata show the caller and the action, even with
/// impersonation.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: Metadata
";

/// token,user,uid,\"groups\"
const TOKENS: &str = "\
ulrike-token,ulrike,uid-ulrike,\"dev,ops\"
theo-token,theo,uid-theo
";

/// The file with the issuers whose ID tokens the host accepts. The host reads it again when it
/// changes.
pub(crate) const AUTHENTICATION: &str = "authentication.yaml";
/// The API version that Kubernetes 1.30 reads: `v1` came with 1.34.
pub(crate) const AUTHENTICATION_API: &str = "apiserver.config.k8s.io/v1beta1";
/// No issuers. The flags decide about anonymous requests.
const NO_ISSUERS: &str = "\
apiVersion: apiserver.config.k8s.io/v1beta1
kind: AuthenticationConfiguration
jwt: []
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuer_file_has_the_api_version_of_the_configuration() {
        assert!(NO_ISSUERS.starts_with(&format!("apiVersion: {AUTHENTICATION_API}\n")), "{NO_ISSUERS}");
    }
}
