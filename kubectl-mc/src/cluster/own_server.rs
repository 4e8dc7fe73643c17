//! Reads the address that a cluster publishes for itself, for contexts whose address is local to this
//! machine.

use serde_json::Value;

use crate::cluster::context::read_kubeconfig;

/// The ConfigMap that kubeadm, kind and others publish for joining nodes.
pub(crate) const CLUSTER_INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
/// The EndpointSlice in which kube-apiserver publishes its own address.
pub(crate) const ENDPOINTS: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";

/// The server of [`CLUSTER_INFO`].
pub(crate) fn published(info: &Value) -> Option<String> {
    let kubeconfig = read_kubeconfig(info["data"]["kubeconfig"].as_str()?.as_bytes()).ok()?;
    kubeconfig.clusters.into_iter().next()?.cluster?.server
}

/// The server of [`ENDPOINTS`].
pub(crate) fn of_endpoints(slice: &Value) -> Option<String> {
    let address = slice["endpoints"][0]["addresses"][0].as_str()?;
    let port = slice["ports"][0]["port"].as_u64()?;
    let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    Some(format!("https://{address}:{port}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn published_kubeconfig_names_the_server() {
        let info =
            json!({"data": {"kubeconfig": "clusters: [{name: '', cluster: {server: 'https://c:6443'}}]"}});
        assert_eq!(published(&info).as_deref(), Some("https://c:6443"));
        assert_eq!(published(&Value::Null), None);
    }

    #[test]
    fn ipv6_address_is_in_brackets() {
        let slice = json!({"endpoints": [{"addresses": ["fd00::1"]}], "ports": [{"port": 6443}]});
        assert_eq!(of_endpoints(&slice).as_deref(), Some("https://[fd00::1]:6443"));
        assert_eq!(of_endpoints(&Value::Null), None);
    }
}
