//! Writes a ClusterProfile for each member (SIG Multicluster's Cluster Inventory API, KEP-4322), so that
//! other controllers find the members and reach them through the host. A profile contains no
//! credential: a consumer uses its own credential for the host.
//!
//! Profiles are in the sidecar's namespace and are owned by their MemberCluster, with which the host deletes
//! them. Profiles of other cluster managers are not changed. Without the CRD nothing is written.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kubectl_mc_api::direct::Server;
use kubectl_mc_api::names::SIDECAR;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{info, warn};

use super::context::Context;
use crate::members::inventory::fleet::Registered;

mod profile;

use profile::{CLUSTER_MANAGER, Host, Profile};

/// Syncs the profiles until this replica loses leadership.
pub(super) async fn run(mut context: Context) {
    let Some(server) = context.settings.cluster_profile_server.clone() else {
        return std::future::pending().await;
    };
    let mut profiles = Profiles::new(context.host.clone(), &context.namespace, server);
    let mut resync = Instant::now();
    let queue = context.metrics.queue("cluster-profiles");
    loop {
        let fleet = context.fleet.borrow_and_update().clone();
        let members = fleet.values().filter(|registered| registered.is_of(&context.namespace));
        let is_due = Instant::now() >= resync;
        if is_due {
            resync = Instant::now() + RESYNC;
        }
        let work = queue.begin();
        let synced = profiles.sync(members, is_due).await;
        work.done(synced.is_err());
        if let Err(error) = synced {
            warn!(error = format!("{error:#}"), "cannot write ClusterProfiles");
            profiles.wanted = None;
        }
        // Changes within a short time are combined in one sync.
        sleep(SETTLE).await;
        if let Ok(Err(_)) = timeout_at(resync, context.fleet.changed()).await {
            return;
        }
    }
}

struct Profiles {
    objects: Api<DynamicObject>,
    config_maps: Api<ConfigMap>,
    host: Host,
    /// The profiles of the last sync, if it succeeded.
    wanted: Option<BTreeMap<String, Profile>>,
}

impl Profiles {
    fn new(host: kube::Client, namespace: &str, server: Server) -> Self {
        let kind = GroupVersionKind::gvk("multicluster.x-k8s.io", "v1alpha1", "ClusterProfile");
        let resource = ApiResource::from_gvk_with_plural(&kind, "clusterprofiles");
        let objects = Api::namespaced_with(host.clone(), namespace, &resource);
        let config_maps = Api::namespaced(host, namespace);
        Self { objects, config_maps, host: Host { server, ca: None }, wanted: None }
    }

    /// Writes the profiles that differ on the host. The host is read only if the desired profiles have
    /// changed or if `is_due`, because members change often in fields that no profile has, such as the
    /// last-seen time.
    async fn sync<'a>(
        &mut self,
        members: impl Iterator<Item = &'a Registered>,
        is_due: bool,
    ) -> anyhow::Result<()> {
        if is_due {
            self.host.ca = self.ca().await?;
        }
        let wanted: BTreeMap<_, _> = members.filter_map(|member| Profile::of(member, &self.host)).collect();
        if !is_due && self.wanted.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let Some(found) = self.found().await? else { return Ok(()) };
        // A profile that the host refuses does not block the others.
        let mut failed = None;
        for (name, profile) in &wanted {
            match found.get(name) {
                Some(object) if !is_ours(object) => warn!(
                    cluster = name,
                    manager = manager(object),
                    "a ClusterProfile of another cluster manager has the member's name"
                ),
                Some(object) if profile.is_in(object) => {}
                _ => failed = self.write(name, profile).await.err().or(failed),
            }
        }
        for (name, object) in &found {
            if is_ours(object) && !wanted.contains_key(name) {
                failed = self.delete(name, object).await.err().or(failed);
            }
        }
        self.wanted = failed.is_none().then_some(wanted);
        failed.map_or(Ok(()), Err)
    }

    /// All profiles of the namespace; `None` if the host does not have the CRD.
    async fn found(&self) -> anyhow::Result<Option<BTreeMap<String, DynamicObject>>> {
        match self.objects.list(&ListParams::default()).await {
            Ok(list) => {
                let named = |object: DynamicObject| Some((object.metadata.name.clone()?, object));
                Ok(Some(list.items.into_iter().filter_map(named).collect()))
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error).context("cannot list ClusterProfiles"),
        }
    }

    async fn write(&self, name: &str, profile: &Profile) -> anyhow::Result<()> {
        let by_us = PatchParams::apply(SIDECAR).force();
        let (object, status) = (Patch::Apply(profile.object(name)), Patch::Apply(profile.status(name)));
        let failed = || format!("cannot write ClusterProfile {name}");
        self.objects.patch(name, &by_us, &object).await.with_context(failed)?;
        self.objects.patch_status(name, &by_us, &status).await.with_context(failed)?;
        Ok(())
    }

    async fn delete(&self, name: &str, object: &DynamicObject) -> anyhow::Result<()> {
        let preconditions = Preconditions { uid: object.metadata.uid.clone(), resource_version: None };
        let parameters = DeleteParams::default().preconditions(preconditions);
        match self.objects.delete(name, &parameters).await {
            Ok(_) => info!(cluster = name, "deleted the ClusterProfile"),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
            Err(error) => return Err(error).with_context(|| format!("cannot delete ClusterProfile {name}")),
        }
        Ok(())
    }

    /// The CA of the host's kube-apiserver, which Kubernetes publishes in each namespace.
    async fn ca(&self) -> anyhow::Result<Option<String>> {
        let found = self.config_maps.get_opt(ROOT_CA).await;
        let found = found.with_context(|| format!("cannot read ConfigMap {ROOT_CA}"))?;
        Ok(found.and_then(|found| found.data?.remove("ca.crt")).filter(|pem| !pem.is_empty()))
    }
}

fn manager(object: &DynamicObject) -> &str {
    object.data.pointer("/spec/clusterManager/name").and_then(Value::as_str).unwrap_or_default()
}

fn is_ours(object: &DynamicObject) -> bool {
    manager(object) == CLUSTER_MANAGER
}

/// kube-controller-manager: `pkg/controller/certificates/rootcacertpublisher`.
const ROOT_CA: &str = "kube-root-ca.crt";
/// The longest time until a changed profile is repaired or a new CRD is noticed.
const RESYNC: Duration = Duration::from_secs(60);
const SETTLE: Duration = Duration::from_secs(1);

#[cfg(test)]
#[expect(clippy::disallowed_types, reason = "a fake host's state, never held over an await")]
mod tests;
