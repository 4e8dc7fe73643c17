//! Decides about the requests of `karmadactl register` before an agent has its certificate. It checks whether
//! the cluster exists, and creates the namespaces and the RBAC of the new agent. After a failure it deletes
//! them again.
//!
//! All registrations share this identity, so only the object has the name of the cluster. The host's
//! admission checks the created objects.

use super::layout::{EXECUTION, Layout};
use super::request::{Decision, Reason, Resource};
use super::subject;

/// Decides about a request of the generator.
pub(super) fn decide(layout: &Layout, request: &Resource<'_>) -> Decision {
    if !request.subresource.is_empty() {
        return Decision::Deny(Reason::NotNeeded);
    }
    let Resource { verb, name, namespace, .. } = *request;
    let is_named = match (request.group, request.resource) {
        ("cluster.karmada.io", "clusters") if verb == "get" => subject::is_cluster(name),
        ("certificates.k8s.io", "certificatesigningrequests") if ["get", "delete"].contains(&verb) => {
            name.starts_with(REQUEST)
        }
        ("", "namespaces") if ["get", "create"].contains(&verb) => {
            let is_known = name == layout.cluster_namespace
                || name.strip_prefix(EXECUTION).is_some_and(subject::is_cluster);
            is_known || is_new(request)
        }
        (RBAC, "clusterroles" | "clusterrolebindings") if VERBS.contains(&verb) => {
            namespace.is_empty() && (is_new(request) || cluster_of(name, "agent").is_some())
        }
        (RBAC, "roles" | "rolebindings") if VERBS.contains(&verb) => {
            let executed = namespace.strip_prefix(EXECUTION).filter(|cluster| subject::is_cluster(cluster));
            if namespace == layout.cluster_namespace {
                is_new(request) || cluster_of(name, "agent-secret").is_some()
            } else if executed.is_some() {
                is_new(request) || cluster_of(name, "agent-work") == executed
            } else {
                return Decision::Deny(Reason::OtherNamespace);
            }
        }
        _ => return Decision::Deny(Reason::NotNeeded),
    };
    if is_named { Decision::NoOpinion } else { Decision::Deny(Reason::OtherObject) }
}

/// Whether the request creates an object whose name is only in its body.
fn is_new(request: &Resource<'_>) -> bool {
    request.verb == "create" && request.name.is_empty()
}

/// The cluster in the name of an agent's role: `system:karmada:CLUSTER:agent`.
fn cluster_of<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    let cluster = name.strip_prefix("system:karmada:")?.strip_suffix(suffix)?.strip_suffix(':')?;
    subject::is_cluster(cluster).then_some(cluster)
}

const RBAC: &str = "rbac.authorization.k8s.io";
const VERBS: [&str; 3] = ["get", "create", "delete"];
/// The prefix of the CertificateSigningRequests for the generator's own certificate.
const REQUEST: &str = "agent-rbac-generator-";
