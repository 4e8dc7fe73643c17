//! Builds the paths of members below the host's API:
//! `/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/<name>/proxy[/…]`.

use crate::ClusterName;

/// The API group that the sidecar serves by aggregation.
pub const PROXY_GROUP: &str = "proxy.kubectl-mc.dev";
/// The version of [`PROXY_GROUP`] that is served.
pub const PROXY_VERSION: &str = "v1alpha1";
/// `<group>/<version>` of the aggregated API.
pub const PROXY_GROUP_VERSION: &str = "proxy.kubectl-mc.dev/v1alpha1";
/// The plural resource name of the aggregated view of the inventory.
pub const CLUSTERS: &str = "clusters";
/// The subresource of [`CLUSTERS`] for agents' tunnels. kube-apiserver sets no deadline for a subresource of
/// this name.
pub const ATTACH: &str = "attach";
/// The subresource of [`CLUSTERS`] for self reviews of callers on a member.
pub const SELF_REVIEWS: &str = "selfreviews";
/// The collection of clusters, below the host's root.
pub const CLUSTERS_PATH: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters";

/// The API root of the fleet view below the host's, without a trailing slash.
pub const FLEET_ROOT: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/*/proxy";

/// The registry, below the host's root.
pub const MEMBER_CLUSTERS_PATH: &str = "/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters";

/// The ClusterAccesses, below the host's root.
pub const CLUSTER_ACCESSES_PATH: &str = "/apis/fleet.kubectl-mc.dev/v1alpha1/clusteraccesses";

/// A registered cluster, below the host's root.
pub fn member_cluster(name: &ClusterName) -> String {
    format!("{MEMBER_CLUSTERS_PATH}/{name}")
}

/// A Secret, below a cluster's root.
pub fn secret(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets/{name}")
}

/// The path of a member's API root below the host's, without a trailing slash.
pub fn member_root(cluster: &ClusterName) -> String {
    format!("{CLUSTERS_PATH}/{cluster}/proxy")
}

/// The path below which a member answers self reviews of the caller, without a trailing slash. It needs only
/// the right to read the member; below [`member_root`] the host requires `create` for every POST.
pub fn self_review_root(cluster: &ClusterName) -> String {
    format!("{CLUSTERS_PATH}/{cluster}/{SELF_REVIEWS}")
}

/// The path at which a member's agent attaches its tunnel, below the host's root.
pub fn attach(cluster: &ClusterName) -> String {
    format!("{CLUSTERS_PATH}/{cluster}/{ATTACH}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;

    #[test]
    fn paths_are_consistent_with_each_other() {
        assert_eq!(PROXY_GROUP_VERSION, format!("{PROXY_GROUP}/{PROXY_VERSION}"));
        assert_eq!(FLEET_ROOT, format!("{CLUSTERS_PATH}/{}/proxy", crate::fleet::names::ALL_MEMBERS));
        assert_eq!(MEMBER_CLUSTERS_PATH, format!("/apis/{}/memberclusters", names::FLEET_GROUP_VERSION));
        assert_eq!(CLUSTER_ACCESSES_PATH, format!("/apis/{}/clusteraccesses", names::FLEET_GROUP_VERSION));
        assert_eq!(CLUSTERS_PATH, format!("/apis/{PROXY_GROUP_VERSION}/{CLUSTERS}"));
        assert_eq!(
            member_root(&"m1".parse().unwrap()),
            "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy"
        );
        assert_eq!(
            self_review_root(&"m1".parse().unwrap()),
            "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/selfreviews"
        );
        assert_eq!(attach(&"m1".parse().unwrap()), "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/attach");
    }
}
