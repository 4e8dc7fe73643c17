//! Creates and renews the serving certificate without an operator (`--rotate-server-certificates`). Each
//! replica makes its own certificate, signed by the authority in Secret `mc-sidecar-ca`. The first
//! replica creates the authority. Any replica can renew it and keeps the `caBundle` of the
//! APIServices in sync with the Secret. Replicas coordinate only through the Secret: a write names
//! the version that was read, so one of two concurrent writes wins, and the other replica reads the
//! result.
//!
//! A change of signers takes three steps, so that the host can always verify the certificate. First the
//! Secret gets the new signer, and both signers in its bundle. Then the APIService gets that bundle. Some
//! seconds later, when every kube-apiserver has seen it, the replicas use certificates of the new signer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Api, Patch, PatchParams};
use kubectl_mc_api::Origin;
use kubectl_mc_api::direct::{Publication, Server};
use kubectl_mc_api::manifests::AUTHORITY;
use kubectl_mc_api::names::{self, API_SERVICE, SIDECAR};
use serde_json::json;
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::connection::tls::authority::{Authority, Leaf, State};
use crate::connection::tls::certificates::ServingCertificate;
use crate::connection::tls::replicas::ReplicaTls;
use crate::observe::readiness::Pending;

/// Maintains one replica's certificate, and the authority's bundle on the host.
pub struct SelfManaged {
    secrets: Api<Secret>,
    registrations: Api<APIService>,
    /// The APIService of a hub's group, in addition to the sidecar's own.
    of_hub: Option<String>,
    names: Vec<String>,
    shown: Arc<ServingCertificate>,
    replicas: Arc<ReplicaTls>,
    /// For agents that dial the direct endpoint: they get the bundle before certificates of a new signer are
    /// used.
    endpoint: Option<(Server, watch::Sender<Option<Publication>>)>,
    /// The bundle with which this replica verifies the others.
    known_by: String,
    leaf: Option<Leaf>,
    /// Since when the APIServices have had the bundle, as observed by this replica.
    published: Option<Instant>,
    /// Keeps the replica unready until the first certificate is there.
    pending: Option<Pending>,
}

/// The DNS names and IP addresses of the certificate. The host's kube-apiserver verifies the first one.
fn names(namespace: &str, direct: Option<&Server>) -> Vec<String> {
    let service = names::service(namespace);
    let mut names = vec![service.clone(), format!("{service}.cluster.local"), "localhost".to_owned()];
    names.push(names::webhook_service(namespace));
    names.extend(direct.map(|server| server.host().to_owned()));
    names
}

impl SelfManaged {
    pub fn new(
        host: kube::Client,
        namespace: &str,
        endpoint: Option<(Server, watch::Sender<Option<Publication>>)>,
        shown: Arc<ServingCertificate>,
        replicas: Arc<ReplicaTls>,
        pending: Pending,
    ) -> Self {
        Self {
            secrets: Api::namespaced(host.clone(), namespace),
            registrations: Api::all(host),
            of_hub: None,
            names: names(namespace, endpoint.as_ref().map(|(server, _)| server)),
            endpoint,
            shown,
            replicas,
            known_by: String::new(),
            leaf: None,
            published: None,
            pending: Some(pending),
        }
    }

    /// Also maintains the APIService of a hub's group.
    pub fn also_for(self, hub: Option<Origin>) -> Self {
        Self { of_hub: hub.map(Origin::api_service), ..self }
    }

    /// Runs until the process ends.
    pub async fn run(mut self) {
        loop {
            let pause = match self.step(OffsetDateTime::now_utc()).await {
                Ok(true) => EVERY,
                Ok(false) => SOON,
                Err(error) => {
                    warn!(error = format!("{error:#}"), "cannot maintain the serving certificate");
                    RETRY
                }
            };
            sleep(pause).await;
        }
    }

    /// Compares with the host once, and returns whether everything is up to date.
    async fn step(&mut self, now: OffsetDateTime) -> anyhow::Result<bool> {
        let Some(authority) = self.authority(now).await? else { return Ok(false) };
        self.announce(&authority);
        let host = self.publish(&authority).await?;
        // A replica that starts during a change of signers must not be ready before the host can verify it.
        if self.leaf.is_none() && host != Published::Now {
            self.show(&authority, now)?;
        }
        self.introduce(&authority)?;
        if host != Published::Before {
            return Ok(false);
        }
        let seen = self.published.is_some_and(|since| since.elapsed() >= SETTLE);
        let leaf = self.leaf.as_ref();
        if leaf.is_some_and(|leaf| authority.signed(leaf) && leaf.is_due(now))
            || seen && leaf.is_some_and(|leaf| !authority.signed(leaf))
        {
            self.show(&authority, now)?;
            self.introduce(&authority)?;
        }
        Ok(self.leaf.as_ref().is_some_and(|leaf| authority.signed(leaf)))
    }

    /// The authority, if it can sign; `None` when the Secret was just written, by this replica or another.
    async fn authority(&self, now: OffsetDateTime) -> anyhow::Result<Option<Authority>> {
        let secret = self.secrets.get(AUTHORITY).await.with_context(|| {
            format!("Secret {AUTHORITY} cannot be read: `kubectl mc install` or the chart makes it")
        })?;
        match State::of(&secret.data.unwrap_or_default(), now)? {
            State::Ready(authority) => Ok(Some(*authority)),
            State::ToWrite(content) => {
                let version = secret.metadata.resource_version;
                let patch = json!({"metadata": {"resourceVersion": version}, "data": content});
                match self.secrets.patch(AUTHORITY, &PatchParams::apply(SIDECAR), &Patch::Merge(patch)).await
                {
                    Ok(_) => info!("created a CA for serving certificates"),
                    // Another replica wrote first.
                    Err(kube::Error::Api(status)) if status.is_conflict() => {}
                    Err(error) => return Err(error).context(format!("Secret {AUTHORITY} cannot be written")),
                }
                Ok(None)
            }
        }
    }

    /// Sets the bundle in the APIServices.
    async fn publish(&mut self, authority: &Authority) -> anyhow::Result<Published> {
        let bundle = ByteString(authority.bundle.clone().into_bytes());
        let mut published = self.publish_to(API_SERVICE, &bundle).await?;
        if let Some(name) = &self.of_hub
            && self.leads_here(name).await?
            && self.publish_to(name, &bundle).await? == Published::Now
        {
            published = Published::Now;
        }
        match published {
            Published::Before => _ = self.published.get_or_insert_with(Instant::now),
            // The APIService is registered when the first replicas are ready.
            Published::Nowhere | Published::Now => self.published = None,
        }
        Ok(published)
    }

    /// Whether an APIService points to the sidecar's own Service: another server may serve the
    /// hub's group.
    async fn leads_here(&self, name: &str) -> anyhow::Result<bool> {
        let service = async |name: &str| {
            let found = match self.registrations.get_opt(name).await {
                // It cannot point here before `hub-api apply`, which grants the right to read it.
                Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(None),
                found => found,
            };
            let found = found.with_context(|| format!("APIService {name} cannot be read"))?;
            anyhow::Ok(found.and_then(|found| found.spec?.service))
        };
        let own = service(API_SERVICE).await?;
        Ok(own.is_some() && own == service(name).await?)
    }

    async fn publish_to(&self, name: &str, bundle: &ByteString) -> anyhow::Result<Published> {
        let found = self.registrations.get_opt(name).await;
        let Some(found) = found.with_context(|| format!("APIService {name} cannot be read"))? else {
            return Ok(Published::Nowhere);
        };
        if found.spec.and_then(|spec| spec.ca_bundle).as_ref() == Some(bundle) {
            return Ok(Published::Before);
        }
        let patch = json!({
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "spec": {"caBundle": bundle},
        });
        match self.registrations.patch(name, &PatchParams::apply(SIDECAR), &Patch::Merge(patch)).await {
            Ok(_) => info!(name, "updated the caBundle of the APIService"),
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            Err(error) => return Err(error).context(format!("APIService {name} cannot be written")),
        }
        Ok(Published::Now)
    }

    fn show(&mut self, authority: &Authority, now: OffsetDateTime) -> anyhow::Result<()> {
        let leaf = authority.issue(&self.names, now)?;
        self.shown.show(leaf.chain.clone(), &leaf.key)?;
        info!(renewed = self.leaf.is_some(), "issued a serving certificate");
        self.leaf = Some(leaf);
        self.known_by.clear();
        self.pending = None;
        Ok(())
    }

    /// Sends the bundle to the agents.
    fn announce(&self, authority: &Authority) {
        let Some((server, endpoint)) = &self.endpoint else { return };
        let current = Publication { server: server.clone(), authority: authority.bundle.clone() };
        endpoint.send_if_modified(|told| told.replace(current.clone()).as_ref() != Some(&current));
    }

    /// Updates this replica's identity for the others, and its trust in theirs.
    fn introduce(&mut self, authority: &Authority) -> anyhow::Result<()> {
        if self.leaf.is_some() && self.known_by != authority.bundle {
            let name = self.names.first().map_or("", String::as_str);
            self.replicas.introduce(&self.shown.current(), authority.bundle.as_bytes(), name)?;
            self.known_by.clone_from(&authority.bundle);
        }
        Ok(())
    }
}

/// Whether the host has the bundle.
#[derive(PartialEq)]
enum Published {
    /// The group is not registered yet.
    Nowhere,
    /// It was just written, by this replica or another.
    Now,
    Before,
}

/// Changes are rare. The interval bounds how long an accidental change by hand lasts.
const EVERY: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_secs(5);
/// Much more than a kube-apiserver needs to see a new bundle.
const SETTLE: Duration = Duration::from_secs(10);

#[cfg(test)]
#[expect(clippy::disallowed_types, reason = "a fake host's state, never held over an await")]
mod tests;
