//! Finds a command that this caller is allowed to run, to print it as the next step.

use http::Method;
use kubectl_mc_api::{ClusterName, path};

use crate::cluster::connection::{Connection, ConnectionError};

/// The most informative command that this caller may run on the new member.
pub(crate) async fn command(host: &Connection, name: &ClusterName) -> Result<String, ConnectionError> {
    let (root, kubectl_mc) = (path::member_root(name), host.cluster.kubectl_mc());
    for (below, words) in CANDIDATES {
        let answer = host.send(Method::GET, &format!("{root}{below}"), None).await?;
        if answer.status.is_success() {
            return Ok(format!("{kubectl_mc} --cluster={name} {words}"));
        }
    }
    Ok(format!("{kubectl_mc} access explain -C {name} get pods"))
}

const CANDIDATES: &[(&str, &str)] = &[
    ("/api/v1/pods?limit=1", "get pods -A"),
    ("/api/v1/namespaces/default/pods?limit=1", "get pods -n default"),
    ("/version", "version"),
];
