//! Finds the cluster of a request: by the host's name, by the server name of TLS, or by the first segment of the
//! path. A name in the host takes precedence over the path: the whole path then belongs to the
//! cluster.

use super::admission::{Host, cluster_of};
use super::clusters::{Clusters, Served};
use super::path;
use super::refusal::Refusal;

/// Where a request goes.
pub(super) struct Target<'a> {
    pub(super) cluster: &'a Served,
    /// The path of the cluster's API.
    pub(super) path: &'a str,
    /// The prefix on the listener: empty, or `/NAME`.
    pub(super) base: &'a str,
}

/// The cluster and its path. `server_name` is the name of TLS, if the client sent one.
pub(super) fn find<'a>(
    clusters: &'a Clusters,
    host: &Host,
    server_name: Option<&str>,
    path: &'a str,
) -> Result<Target<'a>, Refusal> {
    let by_tls = server_name.and_then(cluster_of);
    let named = match (host, by_tls) {
        (Host::Cluster(name), Some(by_tls)) if name != by_tls => return Err(Refusal::Misdirected),
        (Host::Cluster(name), _) => Some(name.as_str()),
        // A kubeconfig has an address and `tls-server-name`, because not every resolver knows NAME.localhost.
        (Host::Loopback, by_tls) => by_tls,
    };
    let not_served = |name: &str| Refusal::NotServed { name: path::shown(name), served: clusters.names() };
    if let Some(name) = named {
        let cluster = clusters.find(name).ok_or_else(|| not_served(name))?;
        return Ok(Target { cluster, path: path::checked(path)?, base: "" });
    }
    let (name, rest) = path::split_first(path);
    if name.is_empty() {
        return Err(Refusal::NoCluster { served: clusters.names() });
    }
    // The name is compared literally: an escaped one is not a name.
    let cluster = clusters.find(name).ok_or_else(|| not_served(name))?;
    Ok(Target { cluster, path: path::checked(rest)?, base: path.get(..=name.len()).unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::listen::session::Session;

    fn clusters() -> Clusters {
        let served = |name: &str| Served {
            name: name.to_owned(),
            namespace: None,
            session: Arc::new(Session::unused()),
            root: String::new(),
        };
        Clusters::of(vec![served("m1"), served("m2")])
    }

    fn found(
        host: &Host,
        server_name: Option<&str>,
        path: &str,
    ) -> Result<(String, String, String), Refusal> {
        let clusters = clusters();
        let target = find(&clusters, host, server_name, path)?;
        Ok((target.cluster.name.clone(), target.path.to_owned(), target.base.to_owned()))
    }

    fn is(name: &str, path: &str, base: &str) -> Result<(String, String, String), Refusal> {
        Ok((name.to_owned(), path.to_owned(), base.to_owned()))
    }

    #[test]
    fn cluster_is_found_by_host_tls_name_or_path() {
        let m1 = Host::Cluster("m1".to_owned());
        assert_eq!(found(&m1, None, "/api"), is("m1", "/api", ""));
        assert_eq!(found(&m1, Some("m1.localhost"), "/m2/api"), is("m1", "/m2/api", ""));
        assert_eq!(found(&Host::Loopback, Some("m2.localhost"), "/api"), is("m2", "/api", ""));
        assert_eq!(found(&Host::Loopback, Some("localhost"), "/m2/api"), is("m2", "/api", "/m2"));
        assert_eq!(found(&Host::Loopback, None, "/m1"), is("m1", "/", "/m1"));
        assert_eq!(found(&Host::Loopback, None, "/m1/"), is("m1", "/", "/m1"));
    }

    #[test]
    fn contradicting_names_are_misdirected() {
        let m1 = Host::Cluster("m1".to_owned());
        assert_eq!(found(&m1, Some("m2.localhost"), "/api"), Err(Refusal::Misdirected));
    }

    #[test]
    fn other_clusters_are_not_found() {
        let (m3, served) = (Host::Cluster("m3".to_owned()), "m1, m2".to_owned());
        let not_served =
            |name: &str| Err(Refusal::NotServed { name: name.to_owned(), served: served.clone() });
        assert_eq!(found(&m3, None, "/m1/api"), not_served("m3"));
        assert_eq!(found(&Host::Loopback, Some("m3.localhost"), "/m1/api"), not_served("m3"));
        assert_eq!(found(&Host::Loopback, None, "/m3/api"), not_served("m3"));
        assert_eq!(found(&Host::Loopback, None, "/m%31/api"), not_served("m1"));
        assert_eq!(found(&Host::Loopback, None, "/M1/api"), not_served("M1"));
        assert_eq!(found(&Host::Loopback, None, "/m1%2fapi"), not_served("m1/api"));
        for none in ["/", "//m1/api"] {
            assert_eq!(
                found(&Host::Loopback, None, none),
                Err(Refusal::NoCluster { served: served.clone() })
            );
        }
    }

    #[test]
    fn path_form_leads_to_no_other_cluster() {
        for path in ["/m1/../m2/api", "/m1//m2/api", "/m1/%2e%2e/m2", "/m1/..%2fm2", "/m1/x/../../m2"] {
            assert!(matches!(found(&Host::Loopback, None, path), Err(Refusal::Path(_))), "{path}");
        }
        for path in ["/../m2/api", "/./m1/api", "/%2e%2e/m2/api"] {
            assert!(matches!(found(&Host::Loopback, None, path), Err(Refusal::NotServed { .. })), "{path}");
        }
    }
}
