//! Decides whether a request of a Karmada agent touches only objects of its own cluster. The decision is a
//! pure function of the caller and the request. It does no lookups, so it never depends on stale data.
//!
//! It denies or has no opinion, and never allows: granting is left to RBAC. A request that matches
//! no row of the table is denied. The attributes are those of a SubjectAccessReview
//! (authorization.k8s.io/v1).
//!
//! - [`subject`]: the user names of agents, as `karmadactl register` writes them into certificates
//! - [`table`]: the requests that an agent needs, by kind, verb, place and name
//! - [`generator`]: the same for the identity that `karmadactl register` uses to create an agent's RBAC
//! - [`rbac`]: the roles and bindings that grant an agent these requests
//! - [`registration`]: the wider rules that `karmadactl register` writes
//! - [`matrix`]: requests of every kind, verb and target, to test and to verify a host

pub mod generator;
mod layout;
pub mod matrix;
pub mod rbac;
pub mod registration;
mod request;
pub mod subject;
pub mod table;

use layout::EXECUTION;
pub use layout::{AGENT_NAMESPACE, CLUSTER_NAMESPACE, InvalidLayout, Layout, execution_namespace};
pub use request::{Attributes, Decision, Reason, Resource, Selection};
use subject::Subject;
use table::{Names, Place};

/// Decides about a request of this user, who is in these groups.
pub fn decide<G: AsRef<str>>(
    layout: &Layout,
    user: &str,
    groups: &[G],
    attributes: &Attributes<'_>,
) -> Decision {
    let subject = match Subject::parse(user, groups) {
        Subject::NoAgent => return Decision::NoOpinion,
        Subject::Unknown => return Decision::Deny(Reason::UnknownSubject),
        subject @ (Subject::Agent(_) | Subject::Generator) => subject,
    };
    match attributes {
        Attributes::NonResource { verb, path } => {
            if *verb == "get" && is_public(path) {
                Decision::NoOpinion
            } else {
                Decision::Deny(Reason::OtherPath)
            }
        }
        Attributes::Resource(request) if table::is_self_review(request) => Decision::NoOpinion,
        Attributes::Resource(request) => match subject {
            Subject::Agent(cluster) => agent(layout, cluster, request),
            _ => generator::decide(layout, request),
        },
    }
}

/// Rows for the same kind and verb differ in place and name; one matching row is enough.
fn agent(layout: &Layout, cluster: &str, request: &Resource<'_>) -> Decision {
    let mut reason = Reason::NotNeeded;
    for row in table::AGENT.iter().filter(|row| row.is_about(request)) {
        if !row.place.holds(layout, cluster, request.namespace) {
            if reason == Reason::NotNeeded {
                reason = Reason::OtherNamespace;
            }
            continue;
        }
        match names(layout, cluster, row.names, request) {
            Ok(()) => return Decision::NoOpinion,
            Err(other) => reason = other,
        }
    }
    Decision::Deny(reason)
}

fn names(layout: &Layout, cluster: &str, names: Names, request: &Resource<'_>) -> Result<(), Reason> {
    let is_own = |name: &str| names.holds(cluster, name);
    let is_right = match request.verb {
        // A POST has no name in its attributes. The host's admission checks the name of the new object.
        "create" => request.name.is_empty() || is_own(request.name),
        "list" | "watch" if names == Names::Any => true,
        "list" | "watch" => {
            let is_all_allowed = names == Names::Cluster && layout.agents_list_clusters;
            // The host copies the name from the selector, even if it does not send the selector itself.
            let is_selected = match request.selection {
                Selection::Name(name) => is_own(name) && (request.name.is_empty() || is_own(request.name)),
                Selection::Everything => !request.name.is_empty() && is_own(request.name),
                Selection::Other => false,
            };
            return if is_all_allowed || is_selected { Ok(()) } else { Err(Reason::WithoutSelector) };
        }
        _ => !request.name.is_empty() && is_own(request.name),
    };
    if is_right { Ok(()) } else { Err(Reason::OtherObject) }
}

impl Place {
    fn holds(self, layout: &Layout, cluster: &str, namespace: &str) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Cluster => namespace.is_empty(),
            Self::ClusterNamespace => namespace == layout.cluster_namespace,
            Self::AgentNamespace => namespace == layout.agent_namespace,
            Self::Execution => namespace.strip_prefix(EXECUTION) == Some(cluster),
            Self::Default => namespace == "default",
        }
    }
}

/// Discovery and health checks, as `system:discovery` and `system:public-info-viewer` grant them.
fn is_public(path: &str) -> bool {
    const EXACT: [&str; 8] =
        ["/api", "/apis", "/openapi", "/version", "/version/", "/healthz", "/livez", "/readyz"];
    const BELOW: [&str; 6] = ["/api/", "/apis/", "/openapi/", "/healthz/", "/livez/", "/readyz/"];
    let is_plain = !path.split('/').any(|segment| segment == ".." || segment == ".");
    is_plain && (EXACT.contains(&path) || BELOW.iter().any(|prefix| path.starts_with(prefix)))
}

/// The annotation with the cluster that an object belongs to.
pub const OWNER: &str = "clusterrestriction.karmada.io/owner";

/// The paths of the admission webhooks.
pub mod admission_path {
    /// Validates CertificateSigningRequests.
    pub const ENROLLMENT: &str = "/enrollment";
    /// Sets the owner annotation.
    pub const OWNER: &str = "/owner";
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
