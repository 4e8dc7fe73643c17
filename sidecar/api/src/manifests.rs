//! Renders the objects of an installation from the files of `sidecar/deploy`, for one namespace, image and
//! set of values. The Helm chart renders the same files.

pub mod agent;
mod direct;
mod endpoints;
mod error;
mod hub;
mod metrics;
mod objects;
mod parameters;
mod pod;
pub mod values;

pub use agent::{Agent, AgentValues, HostConnection};
pub use endpoints::SKIP_MIRROR;
pub use error::Error;
use k8s_openapi::ByteString;
pub use objects::objects;
use objects::{LABELS, labelled, push, remove};
pub use parameters::{AUTHORITY, Parameters, Reach, SERVED};
use serde_json::{Value, json};
pub use values::{Certificates, Values};

use crate::names::{self, SIDECAR};

/// The objects of every joined member.
pub const MEMBER: &str = include_str!("../../deploy/member.yaml");
/// Additional objects of a member until its agent has enrolled.
pub const ENROLLMENT: &str = include_str!("../../deploy/enrollment.yaml");
/// The Secret in which cert-manager stores the CA of the serving certificate.
pub const ISSUER: &str = "mc-sidecar-issuer";
/// The ClusterRole for listing clusters, and its binding.
const LIST: &str = "kubectl-mc-list";
/// The label that selects the sidecar's pods.
pub const SELECTOR: &str = "app.kubernetes.io/name=mc-sidecar";

const NAMESPACE: &str = include_str!("../../deploy/namespace.yaml");
/// The definitions of MemberCluster and ClusterAccess, generated from their types.
pub const CRD: &str = include_str!("../../deploy/crd.yaml");
const RBAC: &str = include_str!("../../deploy/rbac.yaml");
const AGENTS: &str = include_str!("../../deploy/agents.yaml");
const ACCESS_POLICY: &str = include_str!("../../deploy/access-policy.yaml");
const DELETION_POLICY: &str = include_str!("../../deploy/deletion-policy.yaml");
const AUTHORITY_SECRET: &str = include_str!("../../deploy/authority.yaml");
const CERT_MANAGER: &str = include_str!("../../deploy/cert-manager.yaml");
const SERVICE: &str = include_str!("../../deploy/service.yaml");
const PEERS_SERVICE: &str = include_str!("../../deploy/peers-service.yaml");
const NETWORK_POLICY: &str = include_str!("../../deploy/network-policy.yaml");
const DISRUPTION: &str = include_str!("../../deploy/disruption.yaml");
const DEPLOYMENT: &str = include_str!("../../deploy/deployment.yaml");
const REGISTRATION: &str = include_str!("../../deploy/apiservice.yaml");

impl Parameters {
    /// All objects on a host that runs the sidecar itself, in the order in which they are applied.
    /// The APIServices come last, kubectl-mc's own group after a hub's.
    pub fn host(&self) -> Result<Vec<Value>, Error> {
        let mut objects = self.registry()?;
        objects.extend(self.pod_monitor()?);
        objects.extend(self.program()?);
        objects.extend(self.hub_registration()?);
        objects.push(self.registered(REGISTRATION)?);
        Ok(labelled(objects, &LABELS))
    }

    /// The objects on a host whose sidecar runs in another cluster.
    pub fn host_of_remote(&self, reach: &Reach) -> Result<Vec<Value>, Error> {
        let mut objects = self.registry()?;
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": REMOTE_TOKEN,
                "namespace": self.namespace,
                "annotations": {"kubernetes.io/service-account.name": SIDECAR},
            },
            "type": "kubernetes.io/service-account-token",
        }));
        let mut service = self.one(SERVICE)?;
        match reach {
            Reach::Name(name) => service["spec"] = json!({"type": "ExternalName", "externalName": name}),
            Reach::Addresses(addresses, port) => {
                remove(&mut service["spec"], "selector");
                service["spec"]["ports"][0]["targetPort"] = (*port).into();
                objects.extend(self.endpoints(addresses, *port));
            }
        }
        objects.push(service);
        objects.extend(self.hub_registration()?);
        objects.push(self.registered(REGISTRATION)?);
        Ok(labelled(objects, &LABELS))
    }

    /// The objects in another cluster that runs the sidecar with this kubeconfig of the host.
    pub fn remote(&self, host_kubeconfig: &str) -> Result<Vec<Value>, Error> {
        let mut objects = vec![
            self.namespace_object()?,
            self.annotated(json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": SIDECAR, "namespace": self.namespace},
                "automountServiceAccountToken": false,
            })),
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": REMOTE_HOST, "namespace": self.namespace},
                "type": "Opaque",
                "stringData": {"kubeconfig": host_kubeconfig},
            }),
        ];
        let mut program = self.program()?;
        if let Some(deployment) = program.iter_mut().find(|object| object["kind"] == "Deployment") {
            let pod = &mut deployment["spec"]["template"]["spec"];
            push(&mut pod["volumes"], json!({"name": "host", "secret": {"secretName": REMOTE_HOST}}));
            let container = &mut pod["containers"][0];
            let mount = json!({"name": "host", "mountPath": "/var/run/mc-sidecar/host", "readOnly": true});
            push(&mut container["volumeMounts"], mount);
            push(&mut container["args"], "--kubeconfig=/var/run/mc-sidecar/host/kubeconfig".into());
            push(&mut container["args"], format!("--namespace={}", self.namespace).into());
        }
        objects.extend(program);
        Ok(labelled(objects, &LABELS))
    }

    /// The objects that only this issuer of the serving certificate needs.
    pub fn of_certificates(&self) -> Result<Vec<Value>, Error> {
        let text = match self.values.certificates {
            Certificates::SelfManaged => AUTHORITY_SECRET,
            Certificates::CertManager => CERT_MANAGER,
            Certificates::Secret => return Ok(Vec::new()),
        };
        Ok(labelled(self.all(text)?, &LABELS))
    }

    /// The objects of every host: the namespace, the registry of members and the rights.
    fn registry(&self) -> Result<Vec<Value>, Error> {
        let mut objects = vec![self.namespace_object()?];
        objects.extend(self.all(CRD)?);
        objects.extend(self.all(DELETION_POLICY)?);
        // The policy is applied before the rights that it limits.
        objects.extend(self.all(ACCESS_POLICY)?);
        objects.extend(self.all(RBAC)?.into_iter().map(|object| self.annotated(self.listing(object))));
        objects.extend(self.all(AGENTS)?);
        if self.values.certificates == Certificates::SelfManaged {
            objects.extend(self.all(AUTHORITY_SECRET)?);
        }
        objects.extend(self.direct_publication()?);
        objects.extend(self.hub_rights()?);
        Ok(objects)
    }

    /// The definitions of the registry.
    pub fn definitions(&self) -> Result<Vec<Value>, Error> {
        Ok(labelled(self.all(CRD)?, &LABELS))
    }

    /// The namespace of the sidecars.
    pub fn home(&self) -> Result<Vec<Value>, Error> {
        Ok(labelled(vec![self.namespace_object()?], &LABELS))
    }

    fn namespace_object(&self) -> Result<Value, Error> {
        let mut namespace = self.one(NAMESPACE)?;
        if self.values.host_network {
            // Of the Pod Security levels, only privileged admits the host network.
            namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "privileged".into();
        }
        Ok(namespace)
    }

    /// The objects that run the sidecar, in the host or in another cluster.
    fn program(&self) -> Result<Vec<Value>, Error> {
        let mut objects = Vec::new();
        if self.values.certificates == Certificates::CertManager {
            let objects_of_it = self.all(CERT_MANAGER)?.into_iter();
            objects.extend(objects_of_it.map(|object| self.with_direct_name(object)));
        }
        for text in [SERVICE, PEERS_SERVICE, NETWORK_POLICY, DISRUPTION] {
            objects.extend(self.all(text)?);
        }
        objects.extend(self.direct_service()?);
        objects.extend(self.metrics()?);
        objects.push(self.deployment()?);
        Ok(objects)
    }

    /// Sets the groups of the values in the binding of the right to list clusters. Without groups the binding
    /// stays and has no subjects, so an upgrade removes groups that an installation had before.
    fn listing(&self, mut object: Value) -> Value {
        if object["kind"] == "ClusterRoleBinding" && object["metadata"]["name"] == LIST {
            let group =
                |name| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name});
            object["subjects"] = self.values.list_for.iter().map(group).collect();
        }
        object
    }

    fn annotated(&self, mut object: Value) -> Value {
        let annotations = &self.values.service_account.annotations;
        if object["kind"] == "ServiceAccount" && !annotations.is_empty() {
            object["metadata"]["annotations"] = json!(annotations);
        }
        object
    }

    fn deployment(&self) -> Result<Value, Error> {
        Ok(pod::deployment(self, self.one(DEPLOYMENT)?))
    }

    /// The APIService of a group, with the CA bundle or the annotation that the issuer of the serving
    /// certificate needs.
    fn registered(&self, text: &str) -> Result<Value, Error> {
        let mut registration = self.one(text)?;
        match self.values.certificates {
            Certificates::SelfManaged => {}
            Certificates::CertManager => {
                let certificate = format!("{}/{SIDECAR}", self.namespace);
                registration["metadata"]["annotations"] =
                    json!({"cert-manager.io/inject-ca-from": certificate});
            }
            Certificates::Secret if self.values.tls.ca_bundle.is_empty() => {}
            Certificates::Secret => {
                let bundle = ByteString(self.values.tls.ca_bundle.clone().into_bytes());
                registration["spec"]["caBundle"] = json!(bundle);
            }
        }
        Ok(registration)
    }

    fn all(&self, text: &str) -> Result<Vec<Value>, Error> {
        objects(&text.replace(names::NAMESPACE, &self.namespace))
    }

    fn one(&self, text: &str) -> Result<Value, Error> {
        self.all(text)?.pop().ok_or(Error::Empty)
    }
}

/// The additional rights of a sidecar in this namespace that runs in front of Karmada's own server.
///
/// # Errors
///
/// The manifest is not valid YAML.
pub fn hub_api_rights(namespace: &str) -> Result<Vec<Value>, Error> {
    objects(&HUB_API_KARMADA.replace(names::NAMESPACE, namespace))
}

const HUB_API_KARMADA: &str = include_str!("../../deploy/hub-api-karmada.yaml");

/// The Secret on the host with the token of a sidecar that runs in another cluster.
pub const REMOTE_TOKEN: &str = "mc-sidecar-token";
/// The Secret in that cluster with the sidecar's kubeconfig of the host.
pub const REMOTE_HOST: &str = "mc-sidecar-host";

#[cfg(test)]
mod tests;
