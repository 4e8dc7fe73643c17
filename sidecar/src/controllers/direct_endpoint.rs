//! Keeps the CA of the direct endpoint (ConfigMap `kube-public/kubectl-mc`) in sync with the APIService's
//! `caBundle`, because the host and the clients verify the same serving certificate. Without the ConfigMap
//! nothing is published.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Api, Patch, PatchParams};
use kubectl_mc_api::direct::{AUTHORITY, CONFIG_MAP, NAMESPACE};
use kubectl_mc_api::names::{API_SERVICE, SIDECAR};
use serde_json::json;
use tokio::time::sleep;
use tracing::{info, warn};

use super::context::Context;

/// Syncs the CA until this replica loses leadership.
pub(super) async fn run(context: Context) {
    if !context.settings.publishes_direct_endpoint {
        std::future::pending::<()>().await;
    }
    let queue = context.metrics.queue("direct-endpoint");
    let publication = Publication::new(context.host);
    loop {
        let work = queue.begin();
        let step = publication.step().await;
        work.done(step.is_err());
        let pause = match step {
            Ok(State::Published) => INTERVAL,
            Ok(State::Incomplete) => SOON,
            Err(error) => {
                warn!(error = format!("{error:#}"), "cannot publish the CA of the direct endpoint");
                INTERVAL
            }
        };
        sleep(pause).await;
    }
}

struct Publication {
    config_maps: Api<ConfigMap>,
    registrations: Api<APIService>,
}

#[derive(Debug, PartialEq)]
enum State {
    /// The ConfigMap has the CA, or there is no ConfigMap.
    Published,
    /// The ConfigMap was just written, or the APIService is missing or has no CA yet.
    Incomplete,
}

impl Publication {
    fn new(host: kube::Client) -> Self {
        Self { config_maps: Api::namespaced(host.clone(), NAMESPACE), registrations: Api::all(host) }
    }

    async fn step(&self) -> anyhow::Result<State> {
        let found = self.config_maps.get_opt(CONFIG_MAP).await;
        let Some(found) = found.with_context(|| format!("cannot read ConfigMap {NAMESPACE}/{CONFIG_MAP}"))?
        else {
            return Ok(State::Published);
        };
        let registration = self.registrations.get_opt(API_SERVICE).await;
        let Some(registration) =
            registration.with_context(|| format!("cannot read APIService {API_SERVICE}"))?
        else {
            return Ok(State::Incomplete);
        };
        let bundle = registration.spec.and_then(|spec| spec.ca_bundle).map(|bundle| bundle.0);
        let bundle = bundle.map(String::from_utf8).transpose().context("the caBundle is not PEM")?;
        if found.data.as_ref().and_then(|data| data.get(AUTHORITY)) == bundle.as_ref() {
            return Ok(if bundle.is_some() { State::Published } else { State::Incomplete });
        }
        let patch = json!({
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "data": {AUTHORITY: bundle},
        });
        let by_us = PatchParams::apply(SIDECAR);
        match self.config_maps.patch(CONFIG_MAP, &by_us, &Patch::Merge(patch)).await {
            Ok(_) => info!("updated the CA of the direct endpoint"),
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            Err(error) => {
                return Err(error).context(format!("cannot write ConfigMap {NAMESPACE}/{CONFIG_MAP}"));
            }
        }
        Ok(State::Incomplete)
    }
}

/// The longest time until a wrong change of the ConfigMap is repaired.
const INTERVAL: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(1);

#[cfg(test)]
#[expect(clippy::disallowed_types, reason = "a fake host's state, never held over an await")]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Method, Request, Response};
    use http_body_util::BodyExt;
    use k8s_openapi::ByteString;
    use kube::client::Body;
    use serde_json::Value;

    use super::*;

    /// A host with this caBundle and this data of the ConfigMap, which accepts merge patches.
    fn publication(bundle: Option<&str>, data: Option<Value>) -> (Publication, Arc<Mutex<Option<Value>>>) {
        let data = Arc::new(Mutex::new(data));
        let bundle = bundle.map(|pem| ByteString(pem.as_bytes().to_vec()));
        let kept = data.clone();
        let host = tower::service_fn(move |request: Request<Body>| {
            let (kept, bundle) = (kept.clone(), bundle.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let metadata = json!({"name": "n", "resourceVersion": "7"});
                let answer = if head.uri.path().contains("apiservices") {
                    let spec = json!({"groupPriorityMinimum": 1, "versionPriority": 1, "caBundle": bundle});
                    Some(json!({"metadata": metadata, "spec": spec}))
                } else {
                    let mut kept = kept.lock().unwrap();
                    if head.method == Method::PATCH {
                        let patch: Value = serde_json::from_slice(&body)?;
                        assert_eq!(patch["metadata"]["resourceVersion"], "7");
                        let data = kept.as_mut().unwrap().as_object_mut().unwrap();
                        match &patch["data"][AUTHORITY] {
                            Value::Null => data.remove(AUTHORITY),
                            pem => data.insert(AUTHORITY.to_owned(), pem.clone()),
                        };
                    }
                    kept.clone().map(|data| json!({"metadata": metadata, "data": data}))
                };
                let missing =
                    json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
                let code = if answer.is_some() { 200 } else { 404 };
                let body = answer.unwrap_or(missing).to_string().into_bytes();
                Ok::<_, tower::BoxError>(Response::builder().status(code).body(Body::from(body))?)
            }
        });
        (Publication::new(kube::Client::new(host, "default")), data)
    }

    #[tokio::test]
    async fn authority_follows_the_ca_bundle() {
        let server = json!({"server": "https://mc.example"});
        let (publication, data) = publication(Some("new"), Some(server));
        assert_eq!(publication.step().await.unwrap(), State::Incomplete);
        assert_eq!(*data.lock().unwrap(), Some(json!({"server": "https://mc.example", "ca.crt": "new"})));
        assert_eq!(publication.step().await.unwrap(), State::Published);
    }

    #[tokio::test]
    async fn authority_is_removed_with_the_ca_bundle() {
        let (publication, data) = publication(None, Some(json!({"server": "s", "ca.crt": "old"})));
        assert_eq!(publication.step().await.unwrap(), State::Incomplete);
        assert_eq!(*data.lock().unwrap(), Some(json!({"server": "s"})));
    }

    /// Otherwise an APIService that gets its caBundle slightly later would delay clients by half a minute.
    #[tokio::test]
    async fn publication_without_a_ca_is_checked_again_soon() {
        let (publication, _) = publication(None, Some(json!({"server": "https://mc.example"})));
        assert_eq!(publication.step().await.unwrap(), State::Incomplete);
    }

    #[tokio::test]
    async fn removed_publication_stays_removed() {
        let (publication, data) = publication(Some("new"), None);
        assert_eq!(publication.step().await.unwrap(), State::Published);
        assert_eq!(*data.lock().unwrap(), None);
    }
}
