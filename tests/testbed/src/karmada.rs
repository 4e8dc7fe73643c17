//! Starts Karmada's own aggregated API server for a cluster of the bed, with the Service and the APIService
//! of Karmada's chart. Its Clusters are in the cluster's etcd. No controller of Karmada runs.

use std::fs;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::bed::{Cluster, Karmada};
use crate::certificates::Authority;
use crate::control_plane::Site;
use crate::network;
use crate::probe::Probe;
use crate::process::{self, Daemon};
use crate::programs;
use crate::registration::endpoints;

/// Starts it for a cluster whose kube-apiserver is ready, and waits until the kube-apiserver serves its
/// group.
pub(crate) fn start(site: &Site<'_>, cluster: &Cluster) -> Result<Karmada> {
    let dir = cluster.dir.join("karmada");
    fs::create_dir_all(&dir)?;
    let address = match site.loopback {
        true => network::free_port()?,
        false => {
            let apiserver: SocketAddr = cluster.server.trim_start_matches("https://").parse()?;
            (apiserver.ip(), PORT).into()
        }
    };
    let authority = Authority::create(&format!("{}-karmada-ca", cluster.name), &dir, "ca")?;
    let service = format!("{SERVICE}.{NAMESPACE}.svc");
    authority.serving_files(&[&service, "localhost", &address.ip().to_string()], &dir, "serving")?;
    // A front proxy in addition to the host's. Nothing else trusts it.
    let front = Authority::create(&format!("{}-karmada-front-ca", cluster.name), &dir, "front-ca")?;
    front.client_files(FRONT_PROXY, &[], &dir, "front-client")?;
    let of_host = fs::read_to_string(cluster.dir.join("front-proxy-ca.crt"))?;
    fs::write(dir.join("front-proxies.crt"), of_host + &fs::read_to_string(&front.certificate)?)?;
    let file = |name: &str| dir.join(name).display().to_string();
    let kubeconfig = cluster.kubeconfig.display();
    let args = vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        format!("--etcd-servers={}", cluster.etcd),
        format!("--bind-address={}", address.ip()),
        format!("--secure-port={}", address.port()),
        format!("--tls-cert-file={}", file("serving.crt")),
        format!("--tls-private-key-file={}", file("serving.key")),
        "--tls-min-version=VersionTLS13".to_owned(),
        format!("--requestheader-client-ca-file={}", file("front-proxies.crt")),
        format!("--requestheader-allowed-names=front-proxy-client,{FRONT_PROXY}"),
        "--audit-log-path=-".to_owned(),
        "--audit-log-maxage=0".to_owned(),
        "--audit-log-maxbackup=0".to_owned(),
    ];
    let launch = site.launch(&dir, programs::karmada_server(), args);
    let karmada = Karmada {
        url: format!("https://{address}"),
        ca_certificate: authority.certificate.clone(),
        log: launch.log(),
        dir,
    };
    ready(&karmada, &mut launch.start()?)?;

    let kubectl = site.kubectl(&cluster.kubeconfig);
    kubectl.apply(&objects(site.loopback, address, &fs::read(&authority.certificate)?))?;
    kubectl.run(&["wait", "--for=condition=Available", API_SERVICE, "--timeout=60s"])?;
    Ok(karmada)
}

pub(crate) fn stop(karmada: &Karmada) -> Result<()> {
    process::stop(&karmada.dir, NAME).map(drop)
}

pub(crate) fn restart_with(karmada: &Karmada, flags: &[&str]) -> Result<()> {
    let mut server = process::stop(&karmada.dir, NAME)?.start_with(flags)?;
    ready(karmada, &mut server)
}

pub(crate) fn pid(karmada: &Karmada) -> Result<u32> {
    process::recorded_pid(&karmada.dir, NAME)
}

fn ready(karmada: &Karmada, server: &mut Daemon) -> Result<()> {
    let address = karmada.url.trim_start_matches("https://").parse().context("not an address")?;
    let probe = Probe::https(address, &karmada.ca_certificate)?;
    server.until_ready(|| Ok(probe.ok("/readyz")))
}

/// The namespaces of Karmada's programs and of its members' Secrets, and the objects by which the
/// kube-apiserver routes the group to the server.
fn objects(loopback: bool, address: SocketAddr, authority: &[u8]) -> Vec<Value> {
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let ports = json!([{"name": "https", "port": 443, "targetPort": address.port()}]);
    let (spec, port) = match loopback {
        true => (json!({"type": "ExternalName", "externalName": "localhost"}), address.port()),
        false => (json!({"ports": ports}), 443),
    };
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "spec": spec,
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
    });
    let api_service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {
            "name": "v1alpha1.cluster.karmada.io",
            "labels": {"app": SERVICE, "apiserver": "true"},
        },
        "spec": {
            "group": "cluster.karmada.io", "version": "v1alpha1", "caBundle": STANDARD.encode(authority),
            "groupPriorityMinimum": 2000, "versionPriority": 10,
            "service": {"name": SERVICE, "namespace": NAMESPACE, "port": port},
        },
    });
    let mut objects = vec![namespace(NAMESPACE), namespace("karmada-cluster"), service, api_service];
    if !loopback {
        objects.insert(3, endpoints(NAMESPACE, SERVICE, address));
    }
    objects
}

const NAME: &str = "karmada-aggregated-apiserver";
/// The common name of the sidecar as a front proxy.
const FRONT_PROXY: &str = "kubectl-mc";
const SERVICE: &str = NAME;
const NAMESPACE: &str = "karmada-system";
const API_SERVICE: &str = "apiservice/v1alpha1.cluster.karmada.io";
/// The port on the cluster's address, next to the kube-apiserver's port.
const PORT: u16 = 7443;
