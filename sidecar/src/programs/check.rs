//! Implements `mc-sidecar check`: requests the discovery document of the proxy's API from the host, which
//! gets it from a sidecar. Every authenticated account may read it. `helm test` runs this in a pod.

use std::time::Duration;

use anyhow::{Context, bail};
use kubectl_mc_api::names::API_SERVICE;
use kubectl_mc_api::path::{PROXY_GROUP, PROXY_VERSION};
use tokio::time::{Instant, sleep, timeout_at};

use crate::programs::args::Check;

/// Repeats the request until a sidecar answers or the timeout has passed.
pub async fn run(check: Check) -> anyhow::Result<()> {
    let Check { kubeconfig, timeout } = check;
    reach(&crate::host::client::new(kubeconfig.as_deref()).await?, timeout).await
}

async fn reach(host: &kube::Client, timeout: Duration) -> anyhow::Result<()> {
    let deadline = Instant::now() + timeout;
    let mut last = anyhow::anyhow!("no answer");
    let answered = timeout_at(deadline, async {
        while let Err(error) = discover(host).await {
            last = error;
            sleep(INTERVAL).await;
        }
    });
    match answered.await {
        Ok(()) => Ok(()),
        Err(_) => Err(last).context(format!("the host does not reach a sidecar for {API_SERVICE}")),
    }
}

async fn discover(host: &kube::Client) -> anyhow::Result<()> {
    let found = host.list_api_group_resources(&format!("{PROXY_GROUP}/{PROXY_VERSION}")).await?;
    if !found.resources.iter().any(|resource| resource.name == "clusters/proxy") {
        bail!("the API has no resource clusters/proxy");
    }
    Ok(())
}

const INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::{Value, json};

    use super::*;
    use crate::host::fake::host;

    fn served(resource: &str) -> (u16, Value) {
        let resource = json!({"name": resource, "singularName": "", "namespaced": false, "kind": "Cluster", "verbs": []});
        (200, json!({"kind": "APIResourceList", "groupVersion": "g/v", "resources": [resource]}))
    }

    fn missing() -> (u16, Value) {
        (
            404,
            json!({"kind": "Status", "status": "Failure", "message": "no such group", "reason": "NotFound", "code": 404}),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn check_waits_until_a_sidecar_answers() {
        let asked = AtomicUsize::new(0);
        let (client, count) = host(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
            0 => missing(),
            1 => served("clusters"),
            _ => served("clusters/proxy"),
        });
        reach(&client, Duration::from_secs(30)).await.unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn check_fails_with_the_hosts_answer_after_its_timeout() {
        let (client, _) = host(|_| missing());
        let error = format!("{:#}", reach(&client, Duration::from_secs(30)).await.unwrap_err());
        assert!(
            error.contains("v1alpha1.proxy.kubectl-mc.dev") && error.contains("no such group"),
            "{error}"
        );
    }
}
