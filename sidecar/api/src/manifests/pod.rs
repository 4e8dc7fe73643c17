//! Applies the values to the manifest of the sidecar's Deployment, as the chart's template does. The code for
//! an agent's pods shares the functions here.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::objects::{LABELS, push};
use super::parameters::{Parameters, SERVED};
use super::values::{Certificates, SecretName};
use crate::names::SIDECAR;

pub(super) fn deployment(parameters: &Parameters, mut deployment: Value) -> Value {
    let values = &parameters.values;
    deployment["spec"]["replicas"] = values.replicas.get().into();
    let template = &mut deployment["spec"]["template"];
    metadata(&mut template["metadata"], &values.pod_labels, &values.pod_annotations, &LABELS);
    scheduling(parameters, &mut template["spec"]);
    container(parameters, &mut template["spec"]["containers"][0]);
    deployment
}

/// The labels and annotations of pods.
pub(super) fn metadata(
    metadata: &mut Value,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    own: &[(&str, &str)],
) {
    // The sidecar's own labels come last, because the Deployment selects its pods by one of them.
    metadata["labels"] = json!(labels);
    for (key, value) in own {
        metadata["labels"][key] = (*value).into();
    }
    set(metadata, "annotations", json!(annotations));
}

/// The fields of a pod that say where it runs and how its image is fetched.
pub(super) struct Scheduling<'a> {
    pub(super) image_pull_secrets: &'a [SecretName],
    pub(super) node_selector: &'a BTreeMap<String, String>,
    pub(super) affinity: &'a Map<String, Value>,
    pub(super) tolerations: &'a [Map<String, Value>],
    pub(super) priority_class_name: &'a str,
}

impl Scheduling<'_> {
    pub(super) fn apply(&self, pod: &mut Value) {
        let Self { image_pull_secrets, node_selector, affinity, tolerations, priority_class_name } = self;
        let pull_secrets = image_pull_secrets.iter().map(|secret| json!({"name": secret.name}));
        set(pod, "imagePullSecrets", pull_secrets.collect());
        set(pod, "nodeSelector", json!(node_selector));
        set(pod, "affinity", json!(affinity));
        set(pod, "tolerations", json!(tolerations));
        set(pod, "priorityClassName", (*priority_class_name).into());
    }
}

fn scheduling(parameters: &Parameters, pod: &mut Value) {
    let values = &parameters.values;
    if values.host_network {
        pod["hostNetwork"] = true.into();
        pod["dnsPolicy"] = "ClusterFirstWithHostNet".into();
    }
    let scheduling = Scheduling {
        image_pull_secrets: &values.image_pull_secrets,
        node_selector: &values.node_selector,
        affinity: &values.affinity,
        tolerations: &values.tolerations,
        priority_class_name: &values.priority_class_name,
    };
    scheduling.apply(pod);
    if let Some(secret) = serving_secret(parameters) {
        push(&mut pod["volumes"], json!({"name": "tls", "secret": {"secretName": secret}}));
    }
    for volume in &values.extra_volumes {
        push(&mut pod["volumes"], json!(volume));
    }
}

fn container(parameters: &Parameters, container: &mut Value) {
    let values = &parameters.values;
    // On the host network, all addresses would expose the metrics to the node's network.
    let (admin_address, admin_port) =
        if values.host_network { ("127.0.0.1", 10261) } else { ("0.0.0.0", 8080) };
    let mut args = vec![
        "serve".to_owned(),
        format!("--secure-port={}", parameters.port()),
        format!("--admin-bind-address={admin_address}:{admin_port}"),
        "--shutdown-delay-duration=5".to_owned(),
    ];
    match serving_secret(parameters) {
        None => args.push("--rotate-server-certificates".to_owned()),
        Some(_) => {
            args.push(format!("--tls-cert-file={TLS}/tls.crt"));
            args.push(format!("--tls-private-key-file={TLS}/tls.key"));
            let mount = json!({"name": "tls", "mountPath": TLS, "readOnly": true});
            push(&mut container["volumeMounts"], mount);
        }
    }
    if values.certificates == Certificates::CertManager {
        args.push(format!("--peer-ca-file={TLS}/ca.crt"));
    }
    // Certificates that an administrator supplies may not be valid for the replicas' names.
    if values.certificates != Certificates::Secret {
        args.push(format!("--peers={SIDECAR}-peers.{}.svc:{}", parameters.namespace, parameters.port()));
    }
    args.extend(parameters.direct_flag());
    let profiles = &values.cluster_profiles.server;
    args.extend(profiles.as_ref().map(|server| format!("--cluster-profile-server={server}")));
    args.extend(parameters.inventory_flags());
    args.extend(values.extra_args.iter().cloned());
    container["args"] = args.into();
    container["image"] = parameters.image.as_str().into();
    set(container, "imagePullPolicy", json!(values.image.pull_policy));
    set(container, "env", json!(values.extra_env));
    container["ports"][0]["containerPort"] = parameters.port().into();
    container["ports"][1]["containerPort"] = admin_port.into();
    if values.host_network {
        for probe in ["livenessProbe", "readinessProbe"] {
            container[probe]["httpGet"]["host"] = admin_address.into();
        }
    }
    container["resources"] = json!(values.resources);
    for mount in &values.extra_volume_mounts {
        push(&mut container["volumeMounts"], json!(mount));
    }
}

/// The Secret of the serving certificate, if the sidecar does not manage the certificate itself.
fn serving_secret(parameters: &Parameters) -> Option<&str> {
    match parameters.values.certificates {
        Certificates::SelfManaged => None,
        Certificates::CertManager => Some(SERVED),
        Certificates::Secret => Some(&parameters.values.tls.secret_name),
    }
}

/// Sets a field, unless the value is empty.
pub(super) fn set(object: &mut Value, field: &str, value: Value) {
    let is_empty = match &value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    if !is_empty {
        object[field] = value;
    }
}

const TLS: &str = "/var/run/mc-sidecar/tls";
