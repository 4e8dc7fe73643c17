//! Finds the service account with which the sidecar impersonates callers on a member.

use kubectl_mc_api::access::Impersonator;
use kubectl_mc_api::origin::KARMADA_NAMESPACE;
use kubectl_mc_api::{ClusterName, Origin};

use crate::cluster::connection::{Connection, ConnectionError};

/// The account; `None` for a member of KubeAdmiral, whose credential may impersonate every caller.
pub(super) async fn of(
    host: &Connection,
    cluster: &ClusterName,
    origin: Origin,
) -> Result<Option<Impersonator>, ConnectionError> {
    match origin {
        Origin::MemberCluster => Ok(Some(Impersonator::default())),
        Origin::KubeAdmiral => Ok(None),
        Origin::Karmada => {
            let registration = host.readable(&format!("{}/{cluster}", origin.collection())).await?;
            let namespace = registration.as_ref().and_then(|registration| {
                registration.pointer("/spec/impersonatorSecretRef/namespace")?.as_str()
            });
            Ok(Some(Impersonator::of_karmada(namespace.unwrap_or(KARMADA_NAMESPACE))))
        }
    }
}
