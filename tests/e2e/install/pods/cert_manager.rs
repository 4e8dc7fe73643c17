//! `kubectl mc install --certificates=cert-manager` with cert-manager's own controllers:
//! certificates are served and renewed, and no request fails when the issuer changes.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::api::Api;
use harness::asking::while_asking;
use harness::http1::{Endpoint, first_certificate};
use harness::spare_host::listing;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::programs;

use crate::install::pods::in_pods::{API_SERVICE, Scene};
use crate::install::pods::platforms::network::endpoints;

#[test]
fn cert_manager_certificates_are_served_renewed_and_removed() -> Result<()> {
    beside_cert_manager(served_and_renewed)
}

#[test]
fn change_to_cert_manager_and_back_loses_no_request() -> Result<()> {
    beside_cert_manager(|scene| {
        scene.install(&own())?.success()?;
        let clusters = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters";
        while_asking(&scene.api()?, clusters, || there_and_back(scene))
    })
}

/// Runs a test in a namespace that exists before the installation and is not deleted with it.
fn beside_cert_manager(test: impl FnOnce(&Scene) -> Result<()>) -> Result<()> {
    let scene = Scene::take()?;
    let _namespace = Namespace::make(&scene)?;
    let before = listing(scene.host.cluster)?;
    let cert_manager = CertManager::start(&scene)?;
    let tested = test(&scene).map_err(|error| anyhow!("{error:#}\n{}", cert_manager.last_words()));
    let removed = scene.plugin.ok(&["uninstall", "--yes", "--namespace", NAMESPACE]);
    tested?;
    removed?;
    drop(cert_manager);
    // The host removes a group from its list a moment after the group's last definition.
    eventually("nothing is left", SOON, || {
        let after = listing(scene.host.cluster)?;
        let left: Vec<_> = after.symmetric_difference(&before).collect();
        ensure!(left.is_empty(), "left or lost: {left:?}");
        Ok(Some(()))
    })
}

fn served_and_renewed(scene: &Scene) -> Result<()> {
    let install = by_cert_manager();
    scene.install(&install)?.success()?;
    // The reason is the same as below: on a busy machine, the host may have marked the sidecar as
    // unavailable.
    eventually("the host serves members", SOON, || scene.plugin.ok(&["clusters"]).map(Some))?;
    let again = scene.install(&install)?.success()?;
    ensure!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");

    let api = scene.api()?;
    let first = secret(&api)?;
    assert_eq!(api.get(API_SERVICE)?["spec"]["caBundle"], first["ca.crt"]);
    assert_eq!(shown(scene, &first)?, leaf(&first)?);
    let pod = pod(&api)?;

    // The request of `cmctl renew`.
    let ask = json!([{"op": "add", "path": "/status/conditions/-", "value": {
        "type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "a test asks for it",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }}]);
    api.patch(&format!("{CERTIFICATE}/status"), &ask)?;
    let renewed = eventually("cert-manager renews it", SOON, || {
        let now = secret(&api)?;
        Ok((leaf(&now)? != leaf(&first)?).then_some(now))
    })?;
    // The kubelet syncs a changed pod at once, and others within a minute or two.
    let name = pod["metadata"]["name"].as_str().context("no name")?;
    let touched = json!({"metadata": {"annotations": {"e2e": "touched"}}});
    api.merge(&format!("{PODS}/{name}"), &touched)?;
    eventually("the renewed certificate is shown", 4 * SOON, || {
        Ok((shown(scene, &renewed)? == leaf(&renewed)?).then_some(()))
    })?;
    // On a busy machine, the host may have waited five seconds for a sidecar. Then it checks the
    // sidecar again before it sends requests.
    eventually("the host takes the renewed certificate", 2 * SOON, || {
        let listed = scene.plugin.ok(&["clusters"]);
        let listed = listed.map_err(|error| anyhow!("{error:#}\n{}", standing(&api)))?;
        Ok(Some(listed))
    })?;
    let now = self::pod(&api)?;
    assert_eq!(now["metadata"]["uid"], pod["metadata"]["uid"], "it is another pod");
    assert_eq!(now["status"]["containerStatuses"][0]["restartCount"], 0, "it was restarted");
    Ok(())
}

fn there_and_back(scene: &Scene) -> Result<()> {
    let (api, kubectl) = (scene.api()?, Tool::admin(scene.host.cluster)?);
    let bundle = |data: &Value| {
        eventually("the host trusts this authority and no other", 2 * SOON, || {
            let now = &api.get(API_SERVICE)?["spec"]["caBundle"];
            ensure!(*now == data["ca.crt"], "it trusts {now}");
            Ok(Some(()))
        })
    };
    let dry_run = scene.install(&[&by_cert_manager()[..], &["--dry-run"]].concat())?.success()?;
    ensure!(dry_run.contains("secret/mc-sidecar-ca deleted (server dry run)"), "{dry_run}");
    let told = scene.install(&by_cert_manager())?.success()?;
    ensure!(told.contains("secret/mc-sidecar-ca deleted"), "{told}");
    let issued = secret(&api)?;
    bundle(&issued)?;
    assert_eq!(shown(scene, &issued)?, leaf(&issued)?);

    let told = scene.install(&own())?.success()?;
    for gone in ["certificate.cert-manager.io/mc-sidecar", "issuer.cert-manager.io/mc-sidecar"] {
        ensure!(told.contains(&format!("{gone} deleted")), "{gone}: {told}");
    }
    let left =
        "secrets,issuers.cert-manager.io,certificates.cert-manager.io,certificaterequests.cert-manager.io";
    let left = kubectl.ok(&["get", left, "--namespace", NAMESPACE, "-o", "name"])?;
    assert_eq!(left.trim(), "secret/mc-sidecar-ca");
    let authority = format!("/api/v1/namespaces/{NAMESPACE}/secrets/mc-sidecar-ca");
    let own = api.get(&authority)?["data"].clone();
    assert_eq!(own["ca.crt"], own["tls.crt"], "it trusts another beside its own");
    bundle(&own)?;
    shown(scene, &own)?;
    let again = scene.install(&self::own())?.success()?;
    ensure!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    Ok(())
}

fn by_cert_manager() -> [&'static str; 5] {
    ["--certificates=cert-manager", "--replicas=1", "--timeout=90s", "--namespace", NAMESPACE]
}

fn own() -> [&'static str; 5] {
    ["--certificates=self", "--replicas=1", "--timeout=90s", "--namespace", NAMESPACE]
}

/// The Secret that cert-manager writes for the sidecar.
fn secret(api: &Api) -> Result<Value> {
    Ok(api.get(&format!("/api/v1/namespaces/{NAMESPACE}/secrets/mc-sidecar-tls"))?["data"].clone())
}

/// The state that may stop the host from sending requests.
fn standing(api: &Api) -> String {
    let show = |path: &str, field: &str| match api.get(path) {
        Ok(object) => object.pointer(field).unwrap_or(&Value::Null).to_string(),
        Err(error) => format!("{error:#}"),
    };
    format!("registration: {}\npods: {}", show(API_SERVICE, "/status"), show(PODS, "/items/0/status"))
}

fn pem(secret: &Value, key: &str) -> Result<Vec<u8>> {
    Ok(STANDARD.decode(secret[key].as_str().with_context(|| format!("no {key}"))?)?)
}

fn leaf(secret: &Value) -> Result<Vec<u8>> {
    first_certificate(&pem(secret, "tls.crt")?)
}

/// The certificate that the sidecar in the pod serves to a client that trusts the Secret's CA.
fn shown(scene: &Scene, secret: &Value) -> Result<Vec<u8>> {
    let address = *endpoints(scene, NAMESPACE)?.first().context("no sidecar")?;
    let mut connection = Endpoint::pod(address, NAMESPACE, &pem(secret, "ca.crt")?)?.connect()?;
    connection.send(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")?;
    connection.response()?;
    connection.certificate().context("no certificate")
}

/// The sidecar's only pod.
fn pod(api: &Api) -> Result<Value> {
    let pods = api.get(&format!("{PODS}?labelSelector=app.kubernetes.io%2Fname%3Dmc-sidecar"))?;
    Ok(pods["items"][0].clone())
}

/// cert-manager on s1, until dropped.
struct CertManager {
    process: Child,
    folder: TempDir,
    definitions: String,
    kubectl: Tool,
}

impl CertManager {
    fn start(scene: &Scene) -> Result<Self> {
        let cluster = scene.host.cluster;
        let definitions = programs::cert_manager_definitions()?.display().to_string();
        let kubectl = Tool::admin(cluster)?;
        kubectl.ok(&["apply", "--server-side", "-f", &definitions])?;
        kubectl.ok(&["wait", "--for=condition=Established", "-f", &definitions])?;
        let folder = tempfile::tempdir()?;
        let process = Command::new(program()?)
            .arg(format!("--kubeconfig={}", cluster.kubeconfig.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("log"))?)
            .spawn()?;
        Ok(Self { process, folder, definitions, kubectl })
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(20).collect();
        format!("cert-manager says last, backwards:\n{}", lines.join("\n"))
    }
}

impl Drop for CertManager {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = self.kubectl.run(&["delete", "--wait", "-f", &self.definitions]);
    }
}

fn program() -> Result<PathBuf> {
    let path = programs::cert_manager();
    ensure!(path.exists(), "not built: {}: run `make everything`", path.display());
    Ok(path)
}

/// A namespace that outlives cert-manager.
struct Namespace(Tool);

impl Namespace {
    fn make(scene: &Scene) -> Result<Self> {
        let kubectl = Tool::admin(scene.host.cluster)?;
        kubectl.ok(&["create", "namespace", NAMESPACE])?;
        // Every namespace gets these objects. They have to exist before the test counts objects.
        for object in ["configmap/kube-root-ca.crt", "serviceaccount/default"] {
            kubectl.ok(&["wait", "--for=create", object, "--namespace", NAMESPACE])?;
        }
        Ok(Self(kubectl))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.run(&["delete", "namespace", NAMESPACE, "--wait"]);
    }
}

const NAMESPACE: &str = "tools";
const PODS: &str = "/api/v1/namespaces/tools/pods";
const CERTIFICATE: &str = "/apis/cert-manager.io/v1/namespaces/tools/certificates/mc-sidecar";
