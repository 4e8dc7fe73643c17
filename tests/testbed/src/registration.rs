//! Starts the sidecar as a process of the bed, installs it on the host with the manifests that
//! users apply, and registers the members.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::bed::{Bed, Cluster, Sidecar};
use crate::certificates::Authority;
use crate::control_plane::{Site, machine_name};
use crate::kubeconfig::{self, User};
use crate::kubectl::Kubectl;
use crate::network;
use crate::plan::SIDECAR;
use crate::probe::Probe;
use crate::programs;
use crate::progress::step;

/// Installs the sidecar on the host, registers all members and waits until the host serves its group.
pub(crate) fn start_sidecar(site: &Site<'_>, bed: &Bed, program: &Path) -> Result<Sidecar> {
    let dir = site.dir.join(NAME);
    fs::create_dir_all(&dir)?;
    let host = site.kubectl(&bed.host.kubeconfig);
    step("sidecar: registration", || {
        thread::scope(|scope| {
            let members = scope.spawn(|| member_secrets(site, &bed.members));
            install(&host)?;
            let members = members.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked")))?;
            host.apply(&members)
        })
    })?;
    let addresses = Addresses::of(site)?;
    let authority = Authority::create(AUTHORITY, &dir, "ca")?;
    let sidecar =
        step("sidecar: process", || serve(site, bed, &host, program, &dir, &addresses, &authority))?;
    step("sidecar: APIService", || serve_group(site, &host, addresses.secure, &authority))?;
    Ok(sidecar)
}

/// The name of the authority that signs the sidecar's certificate and that the sidecar's system trusts.
pub(crate) const AUTHORITY: &str = "mc-sidecar-ca";

/// The addresses on which the sidecar listens.
struct Addresses {
    secure: SocketAddr,
    admin: SocketAddr,
}

impl Addresses {
    fn of(site: &Site<'_>) -> Result<Self> {
        if site.loopback {
            return Ok(Self { secure: network::free_port()?, admin: network::free_port()? });
        }
        Ok(Self { secure: (SIDECAR, 10250).into(), admin: (SIDECAR, 8080).into() })
    }
}

fn install(host: &Kubectl) -> Result<()> {
    let mut objects = Vec::new();
    for file in [
        "namespace.yaml",
        "crd.yaml",
        "deletion-policy.yaml",
        "access-policy.yaml",
        "rbac.yaml",
        "agents.yaml",
    ] {
        objects.extend(manifest(file)?);
    }
    host.apply(&objects)?;
    host.run(&["wait", "--for=condition=Established", CRD, "--timeout=60s"]).map(drop)
}

/// Prepares the members by hand, and returns the objects that register them on the host.
fn member_secrets(site: &Site<'_>, members: &BTreeMap<String, Cluster>) -> Result<Vec<Value>> {
    let manifest: Vec<Value> = serde_saphyr::from_multiple(WIDE_MEMBER)?;
    thread::scope(|scope| {
        let threads = members.values().map(|member| {
            let kubectl = site.kubectl(&member.kubeconfig);
            let manifest = &manifest;
            scope.spawn(move || {
                kubectl.apply(manifest)?;
                register(member, token(&kubectl, "kubectl-mc-impersonator")?.trim())
            })
        });
        let mut objects = Vec::new();
        for thread in threads.collect::<Vec<_>>() {
            objects.extend(thread.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked")))?);
        }
        Ok(objects)
    })
}

fn register(member: &Cluster, token: &str) -> Result<[Value; 2]> {
    let name = &member.name;
    Ok([
        json!({
            "apiVersion": "fleet.kubectl-mc.dev/v1alpha1",
            "kind": "MemberCluster",
            "metadata": {"name": name},
            "spec": {},
        }),
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "fleet.kubectl-mc.dev/member",
            "metadata": {"name": format!("{name}.member"), "namespace": NAMESPACE},
            "stringData": {
                "server": member.server,
                "ca.crt": fs::read_to_string(&member.ca_certificate)?,
                "token": token,
            },
        }),
    ])
}

fn serve(
    site: &Site<'_>,
    bed: &Bed,
    host: &Kubectl,
    program: &Path,
    dir: &Path,
    addresses: &Addresses,
    authority: &Authority,
) -> Result<Sidecar> {
    let Addresses { secure, admin } = addresses;
    let service = format!("{NAME}.{NAMESPACE}.svc");
    let names = [service.as_str(), "localhost", &secure.ip().to_string()];
    authority.serving_files(&names, dir, "serving")?;
    let token = token(host, NAME)?;
    let kubeconfig = dir.join("kubeconfig");
    let user = User::Token(token.trim());
    kubeconfig::write(&kubeconfig, &bed.host.name, &bed.host.server, &bed.host.ca_certificate, user)?;
    let mut args = vec![
        "serve".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--namespace={NAMESPACE}"),
        format!("--bind-address={}", secure.ip()),
        format!("--secure-port={}", secure.port()),
        format!("--tls-cert-file={}", dir.join("serving.crt").display()),
        format!("--tls-private-key-file={}", dir.join("serving.key").display()),
        format!("--admin-bind-address={admin}"),
    ];
    args.extend(site.tracing_flag());
    let mut launch = site.launch(dir, program.to_owned(), args);
    // The system's root certificates are for members and their proxies without their own CA.
    launch.within.extend(["env".to_owned(), format!("SSL_CERT_FILE={}", authority.certificate.display())]);
    if !site.loopback {
        launch.find_hosts(&hosts(bed))?;
    }
    let log = launch.log();
    let mut daemon = launch.start()?;
    let probe = Probe::http(*admin);
    daemon.until_ready(|| Ok(probe.ok("/readyz")))?;
    Ok(Sidecar {
        url: format!("https://{secure}"),
        ca_certificate: authority.certificate.clone(),
        admin: format!("http://{admin}"),
        log,
        pid: daemon.pid(),
    })
}

/// Names that only the sidecar can resolve: those of the clusters' machines (hosts(5)).
fn hosts(bed: &Bed) -> String {
    let mut lines = "127.0.0.1 localhost\n".to_owned();
    for cluster in [&bed.host].into_iter().chain(bed.members.values()).chain(bed.spares.values()) {
        let address = cluster.server.trim_start_matches("https://").rsplit_once(':').map_or("", |(ip, _)| ip);
        lines.push_str(&format!("{address} {}\n", machine_name(&cluster.name)));
    }
    lines
}

/// Registers the sidecar's API with the host's apiserver.
fn serve_group(site: &Site<'_>, host: &Kubectl, address: SocketAddr, authority: &Authority) -> Result<()> {
    let mut service = single("service.yaml")?;
    let mut api_service = single("apiservice.yaml")?;
    api_service["spec"]["caBundle"] = STANDARD.encode(fs::read(&authority.certificate)?).into();
    let mut objects = Vec::new();
    if site.loopback {
        service["spec"] = json!({"type": "ExternalName", "externalName": "localhost"});
        api_service["spec"]["service"]["port"] = address.port().into();
    } else {
        // The sidecar is a process here, so a selector finds no pod.
        if let Some(spec) = service["spec"].as_object_mut() {
            spec.remove("selector");
        }
        service["spec"]["ports"][0]["targetPort"] = address.port().into();
        objects.push(endpoints(NAMESPACE, NAME, address));
    }
    objects.extend([service, api_service]);
    host.apply(&objects)?;
    host.run(&["wait", "--for=condition=Available", API_SERVICE, "--timeout=60s"]).map(drop)
}

/// The EndpointSlice of a Service without pods.
pub(crate) fn endpoints(namespace: &str, name: &str, address: SocketAddr) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": "testbed"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address.ip()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
    })
}

/// A token of a service account in the sidecar's namespace that outlives any test.
fn token(kubectl: &Kubectl, account: &str) -> Result<String> {
    kubectl.run(&["create", "token", account, "--namespace", NAMESPACE, "--duration=24h"])
}

/// The objects of a file of `sidecar/deploy`.
fn manifest(file: &str) -> Result<Vec<Value>> {
    let path = programs::root().join("sidecar/deploy").join(file);
    let text = fs::read_to_string(&path).with_context(|| format!("no manifest: {}", path.display()))?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("not a manifest: {}", path.display()))
}

fn single(file: &str) -> Result<Value> {
    manifest(file)?.pop().with_context(|| format!("an empty manifest: {file}"))
}

/// A member that lets the sidecar impersonate any user, and has no manager: no controller changes its rights.
const WIDE_MEMBER: &str = include_str!("../member.yaml");
const NAMESPACE: &str = "kubectl-mc-system";
const NAME: &str = "mc-sidecar";
const CRD: &str = "customresourcedefinition/memberclusters.fleet.kubectl-mc.dev";
const API_SERVICE: &str = "apiservice/v1alpha1.proxy.kubectl-mc.dev";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_roles_cover_our_group_and_are_not_aggregated() {
        for role in manifest("rbac.yaml").unwrap() {
            if role["metadata"]["name"].as_str().unwrap().starts_with("kubectl-mc-")
                && role["kind"] == "ClusterRole"
            {
                assert!(role["metadata"]["labels"].is_null(), "{role}");
                for rule in role["rules"].as_array().unwrap() {
                    // The sidecar's metrics and debug pages are not resources.
                    let own =
                        [(json!(["/metrics"]), json!(["get"])), (json!(["/debug/*"]), json!(["get", "put"]))];
                    if own.contains(&(rule["nonResourceURLs"].clone(), rule["verbs"].clone())) {
                        continue;
                    }
                    assert_eq!(rule["apiGroups"], json!(["proxy.kubectl-mc.dev"]));
                }
            }
        }
    }
}
