//! The objects of an installation: the text of `sidecar/deploy` for one namespace, image and way to run. The Helm
//! chart renders the same files.

use serde_json::{Value, json};

use crate::names::{self, KUBECTL_MC, MANAGED_BY, SIDECAR};

/// What a member needs that is joined.
pub const MEMBER: &str = include_str!("../../deploy/member.yaml");
/// The Secret that holds the authority of self-made serving certificates.
pub const AUTHORITY: &str = "mc-sidecar-ca";
/// The Secret that cert-manager makes of the serving certificate, and the one of its authority.
pub const SERVED: &str = "mc-sidecar-tls";
pub const ISSUER: &str = "mc-sidecar-issuer";
/// The label that selects the sidecar's pods.
pub const SELECTOR: &str = "app.kubernetes.io/name=mc-sidecar";

const NAMESPACE: &str = include_str!("../../deploy/namespace.yaml");
const CRD: &str = include_str!("../../deploy/crd.yaml");
const RBAC: &str = include_str!("../../deploy/rbac.yaml");
const AUTHORITY_SECRET: &str = include_str!("../../deploy/authority.yaml");
const CERT_MANAGER: &str = include_str!("../../deploy/cert-manager.yaml");
const SERVICE: &str = include_str!("../../deploy/service.yaml");
const NETWORK_POLICY: &str = include_str!("../../deploy/network-policy.yaml");
const DISRUPTION: &str = include_str!("../../deploy/disruption.yaml");
const DEPLOYMENT: &str = include_str!("../../deploy/deployment.yaml");
const REGISTRATION: &str = include_str!("../../deploy/apiservice.yaml");

/// How the sidecar is run. The chart's values have the same names.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    pub namespace: String,
    pub image: String,
    /// The kubelet's own choice by default.
    pub image_pull_policy: Option<String>,
    pub replicas: u32,
    /// 10250, or 10260 on the host's network, where 10250 is the kubelet's.
    pub secure_port: Option<u16>,
    pub host_network: bool,
    pub certificates: Certificates,
    /// Further flags of `mc-sidecar serve`.
    pub extra_args: Vec<String>,
}

/// Who makes the serving certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificates {
    SelfManaged,
    CertManager,
}

/// How the host reaches a sidecar that runs in another cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Reach {
    /// By a name that the host's kube-apiserver can look up.
    Name(String),
    /// By addresses and a port.
    Addresses(Vec<std::net::IpAddr>, u16),
}

impl Parameters {
    /// The defaults, for an image.
    pub fn new(image: impl Into<String>) -> Self {
        Self {
            namespace: names::NAMESPACE.to_owned(),
            image: image.into(),
            image_pull_policy: None,
            replicas: 2,
            secure_port: None,
            host_network: false,
            certificates: Certificates::SelfManaged,
            extra_args: Vec::new(),
        }
    }

    /// All objects on a host that runs the sidecar itself, in the order to apply them; the registration with
    /// the host's kube-apiserver comes last.
    pub fn host(&self) -> Result<Vec<Value>, Error> {
        let mut objects = self.registry()?;
        objects.extend(self.program()?);
        objects.push(self.registration()?);
        Ok(labelled(objects))
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
        objects.push(self.registration()?);
        Ok(labelled(objects))
    }

    /// The objects in another cluster that runs the sidecar, which has this kubeconfig of the host.
    pub fn remote(&self, host_kubeconfig: &str) -> Result<Vec<Value>, Error> {
        let mut objects = vec![
            self.namespace_object()?,
            json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": SIDECAR, "namespace": self.namespace},
                "automountServiceAccountToken": false,
            }),
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
        Ok(labelled(objects))
    }

    /// What there is for this way to make the serving certificate and for no other.
    pub fn of_certificates(&self) -> Result<Vec<Value>, Error> {
        let text = match self.certificates {
            Certificates::SelfManaged => AUTHORITY_SECRET,
            Certificates::CertManager => CERT_MANAGER,
        };
        Ok(labelled(self.all(text)?))
    }

    /// The port that the sidecar's pods serve on.
    pub fn port(&self) -> u16 {
        self.secure_port.unwrap_or(if self.host_network { 10260 } else { 10250 })
    }

    /// What is on every host: the home, the registry of members and the rights.
    fn registry(&self) -> Result<Vec<Value>, Error> {
        let mut objects = vec![self.namespace_object()?];
        objects.extend(self.all(CRD)?);
        objects.extend(self.all(RBAC)?);
        if self.certificates == Certificates::SelfManaged {
            objects.extend(self.all(AUTHORITY_SECRET)?);
        }
        Ok(objects)
    }

    fn namespace_object(&self) -> Result<Value, Error> {
        let mut namespace = self.one(NAMESPACE)?;
        if self.host_network {
            // Pod security knows no lower level that admits it.
            namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "privileged".into();
        }
        Ok(namespace)
    }

    /// What runs the sidecar, in whichever cluster.
    fn program(&self) -> Result<Vec<Value>, Error> {
        let mut objects = Vec::new();
        if self.certificates == Certificates::CertManager {
            objects.extend(self.all(CERT_MANAGER)?);
        }
        for text in [SERVICE, NETWORK_POLICY, DISRUPTION] {
            objects.extend(self.all(text)?);
        }
        objects.push(self.deployment()?);
        Ok(objects)
    }

    fn deployment(&self) -> Result<Value, Error> {
        let mut deployment = self.one(DEPLOYMENT)?;
        deployment["spec"]["replicas"] = self.replicas.into();
        let pod = &mut deployment["spec"]["template"]["spec"];
        let mut args = vec!["serve".to_owned(), format!("--secure-port={}", self.port())];
        // On the host's network the port of metrics would be open to that network.
        let admin_port = if self.host_network { 10261 } else { 8080 };
        let admin_address = if self.host_network { "127.0.0.1" } else { "0.0.0.0" };
        args.push(format!("--admin-bind-address={admin_address}:{admin_port}"));
        args.push("--shutdown-delay-duration=5".to_owned());
        match self.certificates {
            Certificates::SelfManaged => args.push("--rotate-server-certificates".to_owned()),
            Certificates::CertManager => {
                args.push("--tls-cert-file=/var/run/mc-sidecar/tls/tls.crt".to_owned());
                args.push("--tls-private-key-file=/var/run/mc-sidecar/tls/tls.key".to_owned());
                pod["volumes"] = json!([{"name": "tls", "secret": {"secretName": SERVED}}]);
            }
        }
        args.extend(self.extra_args.iter().cloned());
        if self.host_network {
            pod["hostNetwork"] = true.into();
            pod["dnsPolicy"] = "ClusterFirstWithHostNet".into();
        }
        let container = &mut pod["containers"][0];
        container["image"] = self.image.as_str().into();
        if let Some(policy) = &self.image_pull_policy {
            container["imagePullPolicy"] = policy.as_str().into();
        }
        container["args"] = args.into();
        container["ports"][0]["containerPort"] = self.port().into();
        container["ports"][1]["containerPort"] = admin_port.into();
        if self.host_network {
            for probe in ["livenessProbe", "readinessProbe"] {
                container[probe]["httpGet"]["host"] = admin_address.into();
            }
        }
        if self.certificates == Certificates::CertManager {
            container["volumeMounts"] =
                json!([{"name": "tls", "mountPath": "/var/run/mc-sidecar/tls", "readOnly": true}]);
        }
        Ok(deployment)
    }

    fn registration(&self) -> Result<Value, Error> {
        let mut registration = self.one(REGISTRATION)?;
        if self.certificates == Certificates::CertManager {
            let certificate = format!("{}/{SIDECAR}", self.namespace);
            registration["metadata"]["annotations"] = json!({"cert-manager.io/inject-ca-from": certificate});
        }
        Ok(registration)
    }

    /// One slice for each family of addresses.
    fn endpoints(&self, addresses: &[std::net::IpAddr], port: u16) -> Vec<Value> {
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

    fn all(&self, text: &str) -> Result<Vec<Value>, Error> {
        objects(&text.replace(names::NAMESPACE, &self.namespace))
    }

    fn one(&self, text: &str) -> Result<Value, Error> {
        self.all(text)?.pop().ok_or(Error::Empty)
    }
}

/// The objects of a manifest.
pub fn objects(text: &str) -> Result<Vec<Value>, Error> {
    serde_saphyr::from_multiple(text).map_err(|error| Error::Yaml(error.to_string()))
}

/// A manifest that is none: a defect of this program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a manifest is not YAML: {0}")]
    Yaml(String),
    #[error("a manifest is empty")]
    Empty,
}

fn labelled(mut objects: Vec<Value>) -> Vec<Value> {
    for object in &mut objects {
        object["metadata"]["labels"][MANAGED_BY] = KUBECTL_MC.into();
    }
    objects
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

/// The Secret that holds the token of a sidecar which runs in another cluster.
pub const REMOTE_TOKEN: &str = "mc-sidecar-token";
/// The Secret there that holds its kubeconfig of the host.
pub const REMOTE_HOST: &str = "mc-sidecar-host";

#[cfg(test)]
mod tests;
