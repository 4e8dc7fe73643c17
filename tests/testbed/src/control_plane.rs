//! A control plane: etcd, kube-apiserver, kube-controller-manager, and kube-scheduler where there is a node.

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

/// What the control planes of one bed have in common.
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
    // Those of spare clusters serve one test at a time.
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

/// The controllers are at work when the default namespace has its service account: pods need it.
pub(crate) fn controllers_work(kubectl: &Kubectl) -> Result<()> {
    kubectl.run(&["wait", "--for=create", "serviceaccount/default", "--timeout=120s"]).map(drop)
}

pub(crate) fn stop_apiserver(dir: &Path) -> Result<()> {
    process::stop(dir, APISERVER).map(drop)
}

/// `hosts`: what it can look up beside the DNS (hosts(5)), in the place of the machine's own file.
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

/// What a cluster's machine is called in the network that the machines share, as kind names them.
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
    // The last two as kind and k3s have it: kubeconfigs made there name the machine that they are made on.
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

fn etcd_args(dir: &Path, ports: &Ports) -> Vec<String> {
    let (client, peer) = (format!("http://{}", ports.etcd), format!("http://{}", ports.etcd_peer));
    vec![
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // Nothing here outlives a crash of the machine.
        "--unsafe-no-fsync".to_owned(),
        // Alone, it has no follower whom a heartbeat would tell anything.
        "--heartbeat-interval=1000".to_owned(),
        "--election-timeout=5000".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

fn apiserver_args(loopback: bool, plan: &ClusterPlan, ports: &Ports, dir: &Path) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    let address = ports.apiserver.ip();
    let mut args = vec![
        format!("--etcd-servers=http://{}", ports.etcd),
        format!("--bind-address={address}"),
        format!("--advertise-address={address}"),
        format!("--secure-port={}", ports.apiserver.port()),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--service-account-key-file={}", file("service-account.pub")),
        format!("--service-account-signing-key-file={}", file("service-account.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--requestheader-client-ca-file={}", file("front-proxy-ca.crt")),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        format!("--proxy-client-cert-file={}", file("front-proxy-client.crt")),
        format!("--proxy-client-key-file={}", file("front-proxy-client.key")),
        format!("--kubelet-client-certificate={}", file("kubelet-client.crt")),
        format!("--kubelet-client-key={}", file("kubelet-client.key")),
        format!("--kubelet-certificate-authority={}", file("ca.crt")),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        format!("--audit-policy-file={}", file("audit-policy.yaml")),
        format!("--audit-log-path={}", file("audit.log")),
        // An event is in the file before its answer is out: tests read it.
        "--audit-log-mode=blocking".to_owned(),
        // Service addresses are not routed here, the aggregator goes to endpoints; these may not be loopback
        // ones, so without a bridge it goes to an ExternalName instead.
        format!("--enable-aggregator-routing={}", !loopback),
    ];
    if plan.is_at_least(32) {
        args.push("--requestheader-uid-headers=X-Remote-Uid".to_owned());
    }
    if loopback {
        args.push("--endpoint-reconciler-type=none".to_owned());
    }
    if plan.name == HOST {
        args.push(format!("--token-auth-file={}", file("tokens.csv")));
    }
    if takes_id_tokens(plan) {
        args.push(format!("--authentication-config={}", file(AUTHENTICATION)));
    }
    args
}

/// The host, and what may become one.
fn takes_id_tokens(plan: &ClusterPlan) -> bool {
    plan.name == HOST || plan.spare
}

fn controller_manager_args(ports: &Ports, dir: &Path) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    let mut args = client_args("kube-controller-manager", ports.controller_manager, dir);
    args.extend([
        format!("--service-account-private-key-file={}", file("service-account.key")),
        format!("--root-ca-file={}", file("ca.crt")),
        format!("--cluster-signing-cert-file={}", file("ca.crt")),
        format!("--cluster-signing-key-file={}", file("ca.key")),
        "--use-service-account-credentials=true".to_owned(),
        format!("--controllers=*,{}", UNUSED_CONTROLLERS.map(|name| format!("-{name}-controller")).join(",")),
        // Its usual rate makes it take four seconds to get a token for each controller.
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=1000".to_owned(),
    ]);
    args
}

fn scheduler_args(ports: &Ports, dir: &Path) -> Vec<String> {
    client_args("kube-scheduler", ports.scheduler, dir)
}

/// What controller manager and scheduler have in common.
fn client_args(program: &str, address: SocketAddr, dir: &Path) -> Vec<String> {
    let kubeconfig = dir.join(format!("{program}.kubeconfig"));
    let kubeconfig = kubeconfig.display();
    vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        format!("--bind-address={}", address.ip()),
        format!("--secure-port={}", address.port()),
        "--leader-elect=false".to_owned(),
    ]
}

/// The process of a cluster's kube-apiserver.
pub(crate) fn apiserver_pid(dir: &Path) -> Result<u32> {
    process::recorded_pid(dir, APISERVER)
}

const APISERVER: &str = "kube-apiserver";
/// Those that look at things which no test has: persistent volumes, and metrics of pods to scale by.
const UNUSED_CONTROLLERS: [&str; 7] = [
    "ephemeral-volume",
    "horizontal-pod-autoscaler",
    "persistentvolume-attach-detach",
    "persistentvolume-binder",
    "persistentvolume-expander",
    "persistentvolume-protection",
    "persistentvolumeclaim-protection",
];

/// Who the apiserver is to kubelets.
pub(crate) const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// Everything but the noise of leases; metadata tell who did what, also by impersonation.
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

/// Where the host reads whose ID tokens it takes; it reads it again when it changes.
pub(crate) const AUTHENTICATION: &str = "authentication.yaml";
/// The version of its API that Kubernetes 1.30 reads: `v1` came with 1.34.
pub(crate) const AUTHENTICATION_API: &str = "apiserver.config.k8s.io/v1beta1";
/// Nobody's. Anonymous requests are left to the flags.
const NO_ISSUERS: &str = "\
apiVersion: apiserver.config.k8s.io/v1beta1
kind: AuthenticationConfiguration
jwt: []
";

#[cfg(test)]
mod tests {
    use super::*;

    fn apiserver(name: &str, loopback: bool) -> Vec<String> {
        apiserver_of(name, false, loopback)
    }

    fn apiserver_of(name: &str, spare: bool, loopback: bool) -> Vec<String> {
        let plan = ClusterPlan {
            name: name.into(),
            version: "v1.36.3".into(),
            index: 1,
            node: false,
            karmada: false,
            spare,
        };
        apiserver_as_planned(&plan, loopback)
    }

    fn apiserver_as_planned(plan: &ClusterPlan, loopback: bool) -> Vec<String> {
        let ports = Ports::of(plan, loopback).unwrap();
        apiserver_args(loopback, plan, &ports, Path::new("/bed/m1"))
    }

    fn has(args: &[String], wanted: &str) -> bool {
        args.iter().any(|arg| arg == wanted)
    }

    #[test]
    fn only_hosts_authenticate_people() {
        let tokens = "--token-auth-file=/bed/m1/tokens.csv";
        let issuers = "--authentication-config=/bed/m1/authentication.yaml";
        let known = |args: Vec<String>| [tokens, issuers].map(|flag| has(&args, flag));
        assert_eq!(known(apiserver("host", false)), [true, true]);
        assert_eq!(known(apiserver_of("s1", true, false)), [false, true]);
        assert_eq!(known(apiserver("m1", false)), [false, false]);
    }

    #[test]
    fn apiserver_gets_only_flags_that_its_version_has() {
        let flag = "--requestheader-uid-headers=X-Remote-Uid";
        let of = |version: &str| {
            let (name, version) = ("m2".into(), version.into());
            let plan = ClusterPlan { name, version, index: 2, node: false, karmada: false, spare: false };
            has(&apiserver_as_planned(&plan, false), flag)
        };
        assert_eq!(["v1.30.0", "v1.31.9", "v1.32.0", "v1.36.3"].map(of), [false, false, true, true]);
    }

    #[test]
    fn issuers_are_written_in_the_version_of_the_api_that_is_read() {
        assert!(NO_ISSUERS.starts_with(&format!("apiVersion: {AUTHENTICATION_API}\n")), "{NO_ISSUERS}");
    }

    #[test]
    fn on_the_bridge_each_cluster_has_an_address_and_the_usual_port() {
        let args = apiserver("m1", false);
        assert!(has(&args, "--bind-address=10.88.0.11") && has(&args, "--secure-port=6443"), "{args:?}");
        assert!(has(&args, "--enable-aggregator-routing=true"));
    }

    #[test]
    fn without_a_bridge_the_aggregator_does_not_look_for_endpoints() {
        let args = apiserver("m1", true);
        assert!(has(&args, "--bind-address=127.0.0.1") && has(&args, "--endpoint-reconciler-type=none"));
        assert!(has(&args, "--enable-aggregator-routing=false"));
    }
}
