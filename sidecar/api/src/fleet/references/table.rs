//! The closed table of the fields that name a namespace or a cluster-scoped object, for each resource.
//! Names of classes (`storageClassName`, `priorityClassName`) are the same on many members and have no suffix.

use super::Reference::{self, Attributes, Kinded, Name, Object, Version};

/// A field and what it names. `[]` stands for each element of a list.
pub(super) type Rule = (&'static str, Reference);

/// The references of a resource, or of the type that its subresource has.
pub(super) fn rules(group: &str, resource: &str, subresource: &str) -> &'static [Rule] {
    match (group, resource, subresource) {
        ("", "pods" | "bindings", "binding") | ("", "bindings", "") => &[("target", Object)],
        ("", "serviceaccounts", "token") => &[("spec.boundObjectRef", Kinded)],
        ("", "pods", "eviction") => &[("deleteOptions.preconditions.resourceVersion", Version)],
        (_, _, "scale") => &[],
        ("", "pods", _) => &[("spec.nodeName", Name), ("status.nominatedNodeName", Name)],
        ("", "events", _) => &[("involvedObject", Object), ("related", Object)],
        ("events.k8s.io", "events", _) => &[("regarding", Object), ("related", Object)],
        ("", "persistentvolumes", _) => &[("spec.claimRef", Object)],
        ("", "persistentvolumeclaims", _) => {
            &[("spec.volumeName", Name), ("spec.dataSourceRef.namespace", Name)]
        }
        ("", "endpoints", _) => &[
            ("subsets.[].addresses.[].nodeName", Name),
            ("subsets.[].addresses.[].targetRef", Object),
            ("subsets.[].notReadyAddresses.[].nodeName", Name),
            ("subsets.[].notReadyAddresses.[].targetRef", Object),
        ],
        ("discovery.k8s.io", "endpointslices", _) => {
            &[("endpoints.[].nodeName", Name), ("endpoints.[].targetRef", Object)]
        }
        ("", "podtemplates", _) => &[("template.spec.nodeName", Name)],
        ("", "replicationcontrollers", _)
        | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets", _)
        | ("batch", "jobs", _) => &[("spec.template.spec.nodeName", Name)],
        ("batch", "cronjobs", _) => &[("spec.jobTemplate.spec.template.spec.nodeName", Name)],
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings", _) => {
            &[("roleRef", Kinded), ("subjects.[].namespace", Name)]
        }
        ("storage.k8s.io", "volumeattachments", _) => {
            &[("spec.nodeName", Name), ("spec.source.persistentVolumeName", Name)]
        }
        ("resource.k8s.io", "resourceslices", _) => &[("spec.nodeName", Name)],
        ("networking.k8s.io", "ingressclasses", _) => &[("spec.parameters.namespace", Name)],
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations" | "mutatingwebhookconfigurations",
            _,
        ) => &[("webhooks.[].clientConfig.service.namespace", Name)],
        (
            "authorization.k8s.io",
            "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews",
            _,
        ) => &[("spec.resourceAttributes", Attributes)],
        ("authorization.k8s.io", "selfsubjectrulesreviews", _) => &[("spec.namespace", Name)],
        _ => &[],
    }
}

/// The references of the options of a deletion.
pub(super) const DELETE_OPTIONS: &[Rule] = &[("preconditions.resourceVersion", Version)];

/// Whether objects of this type, which Kubernetes itself defines, have no namespace. The type is a kind or a
/// resource.
pub(super) fn is_cluster_scoped(group: &str, kind_or_resource: &str) -> bool {
    CLUSTER_SCOPED.iter().any(|(of, kind, resource)| {
        *of == group && (*kind == kind_or_resource || *resource == kind_or_resource)
    })
}

/// The types whose objects own or are referred to by others.
const CLUSTER_SCOPED: [(&str, &str, &str); 15] = [
    ("", "Node", "nodes"),
    ("", "Namespace", "namespaces"),
    ("", "PersistentVolume", "persistentvolumes"),
    ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings"),
    ("certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests"),
    ("networking.k8s.io", "IngressClass", "ingressclasses"),
    ("node.k8s.io", "RuntimeClass", "runtimeclasses"),
    ("scheduling.k8s.io", "PriorityClass", "priorityclasses"),
    ("storage.k8s.io", "CSIDriver", "csidrivers"),
    ("storage.k8s.io", "CSINode", "csinodes"),
    ("storage.k8s.io", "StorageClass", "storageclasses"),
    ("storage.k8s.io", "VolumeAttachment", "volumeattachments"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
];
