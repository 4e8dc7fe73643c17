//! Renders the objects of the direct endpoint, with which clients bypass the host's kube-apiserver:
//! the Service and the ConfigMap that publishes its URL.

use serde_json::{Value, json};

use super::values::Expose;
use super::{Error, LABELS, Parameters, labelled, pod};
use crate::direct::SERVER;
use crate::names::SIDECAR;

impl Parameters {
    /// The Service, in the cluster that runs the sidecars; empty without an endpoint.
    pub fn direct_service(&self) -> Result<Vec<Value>, Error> {
        let values = &self.values.direct;
        let expose = match values.expose {
            Expose::Nowhere if values.server.is_some() => {
                return Err(Error::Values("direct.server needs direct.expose".to_owned()));
            }
            Expose::NodePort if values.server.is_none() => {
                return Err(Error::Values("direct.expose=NodePort needs direct.server".to_owned()));
            }
            Expose::Nowhere => return Ok(Vec::new()),
            exposed => exposed,
        };
        let mut service = self.one(SERVICE)?;
        pod::set(&mut service["metadata"], "annotations", json!(values.annotations));
        service["spec"]["type"] = json!(expose);
        match (expose, values.node_port) {
            // Keeps the addresses of clients, because the sidecar limits requests by address.
            (Expose::LoadBalancer, _) => service["spec"]["externalTrafficPolicy"] = "Local".into(),
            (_, Some(port)) => service["spec"]["ports"][0]["nodePort"] = port.get().into(),
            (_, None) => {}
        }
        Ok(labelled(vec![service], &LABELS))
    }

    /// The ConfigMap on the host and the rights to read and to maintain it; empty without a URL.
    pub(super) fn direct_publication(&self) -> Result<Vec<Value>, Error> {
        let Some(server) = &self.values.direct.server else { return Ok(Vec::new()) };
        let mut objects = self.all(PUBLICATION)?;
        if let Some(config_map) = objects.iter_mut().find(|object| object["kind"] == "ConfigMap") {
            config_map["data"][SERVER] = server.url().into();
        }
        Ok(objects)
    }

    /// The sidecar's flag, if there is an endpoint.
    pub(super) fn direct_flag(&self) -> Option<String> {
        self.values.direct.server.as_ref().map(|server| format!("--direct-server={server}"))
    }

    /// Adds the host of the URL to the certificate that cert-manager issues.
    pub(super) fn with_direct_name(&self, mut object: Value) -> Value {
        let is_certificate = object["kind"] == "Certificate" && object["metadata"]["name"] == SIDECAR;
        let server = self.values.direct.server.as_ref().filter(|_| is_certificate);
        if let Some(server) = server {
            let field = if server.address().is_some() { "ipAddresses" } else { "dnsNames" };
            super::push(&mut object["spec"][field], server.host().into());
        }
        object
    }

    /// The same parameters with a direct endpoint, to find the names of its objects.
    #[must_use]
    pub fn with_direct_endpoint(mut self) -> Self {
        self.values.direct.expose = Expose::LoadBalancer;
        self.values.direct.server = EXAMPLE.parse().ok();
        self
    }

    /// The objects of a direct endpoint that this installation does not have, so that they can be removed.
    pub fn without_direct(&self) -> Result<Vec<Value>, Error> {
        let exposed = self.clone().with_direct_endpoint();
        let mut surplus = Vec::new();
        if self.values.direct.expose == Expose::Nowhere {
            surplus.extend(exposed.direct_service()?);
        }
        if self.values.direct.server.is_none() {
            surplus.extend(exposed.direct_publication()?);
        }
        Ok(surplus)
    }
}

const SERVICE: &str = include_str!("../../../deploy/direct-service.yaml");
const PUBLICATION: &str = include_str!("../../../deploy/direct.yaml");
const EXAMPLE: &str = "https://mc-sidecar.example";
