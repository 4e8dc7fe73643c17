//! Renders the EndpointSlices and the Endpoints with the addresses of sidecars in another cluster, for a
//! Service without a selector.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::parameters::Parameters;
use crate::names::{KUBECTL_MC, SIDECAR};

/// The label that stops Kubernetes from mirroring an Endpoints to an EndpointSlice. Only an Endpoints written
/// by an installation has it.
pub const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

impl Parameters {
    /// Kubernetes 1.33 and later read the slices. Before that, the aggregator reads only the Endpoints. A
    /// host has both, so an upgrade of the host needs no change.
    pub(super) fn endpoints(&self, addresses: &[IpAddr], port: u16) -> Vec<Value> {
        let mut objects = self.slices(addresses, port);
        let addresses: Vec<_> = addresses.iter().map(|address| json!({"ip": address})).collect();
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": SIDECAR, "namespace": self.namespace, "labels": {SKIP_MIRROR: "true"}},
            "subsets": [{"addresses": addresses, "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}],
        }));
        objects
    }

    /// One slice for each address family.
    fn slices(&self, addresses: &[IpAddr], port: u16) -> Vec<Value> {
        let families = [("IPv4", false), ("IPv6", true)].into_iter();
        let slices = families.filter_map(|(family, six)| {
            let of_it = addresses.iter().filter(|address| address.is_ipv6() == six);
            let endpoints =
                of_it.map(|address| json!({"addresses": [address], "conditions": {"ready": true}}));
            let endpoints = endpoints.collect::<Vec<_>>();
            (!endpoints.is_empty()).then(|| {
                json!({
                    "apiVersion": "discovery.k8s.io/v1",
                    "kind": "EndpointSlice",
                    "metadata": {
                        "name": format!("{SIDECAR}-{}", family.to_lowercase()),
                        "namespace": self.namespace,
                        "labels": {
                            "kubernetes.io/service-name": SIDECAR,
                            "endpointslice.kubernetes.io/managed-by": KUBECTL_MC,
                        },
                    },
                    "addressType": family,
                    "endpoints": endpoints,
                    "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
                })
            })
        });
        slices.collect()
    }
}
