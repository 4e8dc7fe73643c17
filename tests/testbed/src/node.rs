//! Starts a node: containerd, kubelet and kube-proxy in their own namespaces, as if on a separate
//! machine. The network namespace has a name; the mount namespace lives as long as containerd and
//! its containers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::bed::Cluster;
use crate::certificates::Authority;
use crate::control_plane::{KUBELET_CLIENT, Site, authority_name};
use crate::images;
use crate::kubeconfig::{self, User};
use crate::kubectl::Kubectl;
use crate::network;
use crate::plan::{ClusterPlan, SidecarImage};
use crate::process::{self, Launch};
use crate::programs;

/// A node whose containerd runs and has its images. The rest waits for the control plane.
pub(crate) struct Prepared {
    dir: PathBuf,
    /// The command that enters the node's network.
    network: Vec<String>,
    /// The process that has the node's mounts.
    containerd: u32,
}

/// Starts containerd and loads the images, which needs no control plane.
pub(crate) fn prepare(
    site: &Site<'_>,
    plan: &ClusterPlan,
    sidecar: Option<&SidecarImage>,
) -> Result<Prepared> {
    let dir = site.dir.join(&plan.name).join("node");
    let cni = dir.join("cni");
    fs::create_dir_all(&cni)?;
    fs::write(
        cni.join("10-pods.conflist"),
        cni_config(&plan.pod_range(), &dir.join("addresses")).to_string(),
    )?;
    fs::write(dir.join("containerd.toml"), containerd_config(&dir))?;
    let network = network::node_namespace(site.id, &plan.name);
    let network = vec!["nsenter".to_owned(), format!("--net=/run/netns/{network}")];
    let args = vec![format!("--config={}", dir.join("containerd.toml").display())];
    let within = network.iter().map(String::as_str).chain(OWN_MOUNTS.iter().copied()).map(str::to_owned);
    let launch = site.launch(&dir, "/usr/bin/containerd".into(), args);
    let mut containerd = Launch { within: within.collect(), ..launch }.start()?;
    let node = Prepared { dir, network, containerd: containerd.pid() };
    containerd
        .until_ready(|| Ok(ctr(site.id, &node.dir, &["version"]).map_err(|error| format!("{error:#}"))))?;
    let mut archives = images::archives()?;
    match sidecar.filter(|_| plan.spare) {
        Some(SidecarImage::Archive(archive)) => archives.push(archive.clone()),
        Some(SidecarImage::Of(program)) => archives.push(images::sidecar(program)?),
        None => {}
    }
    for archive in archives {
        import(site.id, &site.dir.join(&plan.name), &archive)?;
    }
    Ok(node)
}

/// Loads another image on the node of a cluster.
pub(crate) fn import(bed: &str, cluster: &Path, archive: &Path) -> Result<()> {
    let archive = archive.display().to_string();
    ctr(bed, &cluster.join("node"), &["-n", "k8s.io", "images", "import", &archive])
}

/// Starts kubelet and kube-proxy and waits until the node is ready.
pub(crate) fn join(site: &Site<'_>, plan: &ClusterPlan, node: &Prepared, cluster: &Cluster) -> Result<()> {
    let authority =
        Authority::load(&authority_name(&cluster.name), &cluster.ca_certificate, &cluster.ca_key)?;
    let address = plan.node_address().to_string();
    authority.serving_files(&[&plan.name, &address], &node.dir, "kubelet")?;
    let node_user = format!("system:node:{}", plan.name);
    for (stem, user, groups) in [
        ("kubelet", node_user.as_str(), &["system:nodes"] as &[&str]),
        ("kube-proxy", "system:kube-proxy", &[]),
    ] {
        let certificate = authority.client(user, groups)?;
        let path = node.dir.join(format!("{stem}.kubeconfig"));
        let user = User::Certificate(&certificate);
        kubeconfig::write(&path, &plan.name, &cluster.server, &cluster.ca_certificate, user)?;
    }
    let mut config = kubelet_config(&node.dir, &cluster.ca_certificate, &address);
    if plan.is_at_least(31) {
        // A machine without cgroup v2 is sufficient; older kubelets do not check.
        config["failCgroupV1"] = false.into();
    }
    fs::write(node.dir.join("kubelet.yaml"), config.to_string())?;

    let kubectl = site.kubectl(&cluster.kubeconfig);
    kubectl.apply(&[kubelet_access()])?;
    let file = |name: &str| node.dir.join(name).display().to_string();
    let kubelet_args = vec![
        format!("--kubeconfig={}", file("kubelet.kubeconfig")),
        format!("--config={}", file("kubelet.yaml")),
        format!("--hostname-override={}", plan.name),
        format!("--node-ip={address}"),
        format!("--root-dir={}", file("kubelet")),
        format!("--cert-dir={}", file("kubelet/pki")),
        // The kubelet reads all control groups of the machine, which has many after several beds, and nothing
        // here uses the figures.
        "--housekeeping-interval=1m".to_owned(),
    ];
    let mut proxy_args = vec![
        format!("--kubeconfig={}", file("kube-proxy.kubeconfig")),
        format!("--hostname-override={}", plan.name),
        "--proxy-mode=nftables".to_owned(),
        // The limit belongs to the machine, not to a namespace.
        "--conntrack-max-per-core=0".to_owned(),
        "--conntrack-min=0".to_owned(),
    ];
    if !plan.is_at_least(31) {
        proxy_args.push("--feature-gates=NFTablesProxyMode=true".to_owned());
    }
    let mut within = node.network.clone();
    let proxy = site.launch(&node.dir, programs::path(&plan.version, "kube-proxy"), proxy_args);
    Launch { within: within.clone(), ..proxy }.start()?;
    // The containers must see the volumes that the kubelet mounts.
    within.push(format!("--mount=/proc/{}/ns/mnt", node.containerd));
    let kubelet = site.launch(&node.dir, programs::path(&plan.version, "kubelet"), kubelet_args);
    let mut kubelet = Launch { within, ..kubelet }.start()?;
    kubelet.until_ready(|| Ok(is_ready(&kubectl, &plan.name)))
}

fn ctr(bed: &str, node: &Path, args: &[&str]) -> Result<()> {
    let mut command = Command::new("ctr");
    let output = process::environment(&mut command, bed)
        .arg("--address")
        .arg(node.join(SOCKET))
        .args(args)
        .output()
        .context("cannot start: ctr")?;
    if !output.status.success() {
        bail!("ctr {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn is_ready(kubectl: &Kubectl, node: &str) -> Result<(), String> {
    let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status} {.spec.taints}";
    match kubectl.run(&["get", "node", node, "-o", ready]) {
        Ok(ready) if ready == "True " => Ok(()),
        Ok(other) => Err(format!("its node has readiness and taints: {other}")),
        Err(error) => Err(format!("{error:#}")),
    }
}

/// Lets the apiserver use the kubelet's API for exec, logs and port-forward.
fn kubelet_access() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "testbed:kube-apiserver-to-kubelet"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kubelet-api-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": KUBELET_CLIENT}],
    })
}

/// These are point-to-point links: all of a pod's packets pass through the node, where kube-proxy's
/// rules are.
fn cni_config(pods: &str, addresses: &Path) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [{
            "type": "ptp",
            "ipMasq": false,
            "ipam": {
                "type": "host-local",
                "subnet": pods,
                "dataDir": addresses,
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    })
}

fn containerd_config(dir: &Path) -> String {
    let (dir, sandbox) = (dir.display(), images::AGNHOST);
    format!(
        r#"version = 2
root = "{dir}/containerd"
state = "{dir}/run"
[grpc]
address = "{dir}/{SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
path = "{dir}/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{sandbox}"
# Containers may not make themselves more precious than the one this runs in.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{dir}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"#
    )
}

fn kubelet_config(dir: &Path, ca: &Path, address: &str) -> Value {
    let file = |name: &str| dir.join(name).display().to_string();
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": ca},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": file("kubelet.crt"),
        "tlsPrivateKeyFile": file("kubelet.key"),
        "containerRuntimeEndpoint": format!("unix://{}", file(SOCKET)),
        "podLogsDir": file("pods"),
        "volumePluginDir": file("volume-plugins"),
        // The kubelet must accept the machine as it is.
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "oomScoreAdj": 0,
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "clusterDNS": ["10.0.0.10"],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
    })
}

/// Runs the program in a new mount namespace. In it, the folders that containerd, CNI and kubelets
/// use regardless of their configuration are empty. So a bed leaves nothing in them, and nothing in
/// them disturbs a bed.
const OWN_MOUNTS: &[&str] = &[
    "unshare",
    "--mount",
    "sh",
    "-ec",
    "for folder in /run/containerd /var/lib/cni /var/lib/kubelet /var/log/containers; do
        mkdir -p $folder
        mount -t tmpfs node $folder
    done
    mount --make-rshared /
    exec \"$@\"",
    "node",
];
const SOCKET: &str = "containerd.sock";
