//! Sidecars in pods make their own serving certificates, and the host trusts each new signer without a failed
//! request.

use anyhow::{Result, ensure};
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::Value;

use crate::install::pods::in_pods::{API_SERVICE, Scene};

#[test]
fn new_serving_certificate_signer_loses_no_request() -> Result<()> {
    let scene = Scene::take()?;
    scene.install(&[])?.success()?;
    let api = scene.api()?;
    let bundle = || -> Result<Value> { Ok(api.get(API_SERVICE)?["spec"]["caBundle"].clone()) };
    let secret = "/api/v1/namespaces/kubectl-mc-system/secrets/mc-sidecar-ca";
    let (first, signer) = (bundle()?, api.get(secret)?["data"]["tls.crt"].clone());
    let gone = r#"{"data": {"tls.key": null}}"#;
    let answer = api.request("PATCH", secret, "application/merge-patch+json", gone)?;
    ensure!(answer.status() == 200);
    let works = || -> Result<()> {
        let answer = api.request("GET", "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters", "", "")?;
        ensure!(answer.status() == 200, "the host does not reach the sidecars: {}", answer.status());
        Ok(())
    };
    // Requests are sent throughout, and one that fails ends the test.
    let mut broken = Ok(());
    eventually("another signer", 3 * SOON, || {
        broken = works();
        let done = broken.is_err() || (bundle()? != first && api.get(secret)?["data"]["tls.crt"] != signer);
        Ok(done.then_some(()))
    })?;
    broken?;
    let mut broken = Ok(());
    let logs = ["-n", "kubectl-mc-system", "logs", "-l", "app.kubernetes.io/name=mc-sidecar", "--tail=-1"];
    eventually("both replicas show a certificate of the new signer", 3 * SOON, || {
        broken = works();
        let told = Tool::admin(scene.host.cluster)?.ok(&logs)?;
        let made = told.lines().filter(|line| line.contains("issued a serving certificate renewed=true"));
        Ok((broken.is_err() || made.count() == 2).then_some(()))
    })?;
    broken?;
    works()?;
    scene.uninstall().map(drop)
}
