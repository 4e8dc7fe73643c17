//! Checks a host with the hub of another project: which hub it is, and its known limits.

use http::StatusCode;
use kubectl_mc_api::dialect::Dialect;

use super::report::Finding;
use crate::cluster::client;
use crate::cluster::context::ClusterContext;
use crate::cluster::hub::Origin;
use crate::error::CommandLine;

pub(super) async fn check(
    host: &ClusterContext,
    client: &kube::Client,
    is_service_account: bool,
) -> Vec<Finding> {
    let dialect = &host.hub.dialect;
    let by = if host.hub.origin == Origin::Given {
        "as chosen by --hub or the configuration"
    } else {
        "by discovery"
    };
    let mut findings = vec![Finding::ok("hub", format!("{}, {by}", dialect.title()))];
    match dialect {
        Dialect::Karmada if is_service_account => findings.push(Finding::warning(
            "hub",
            "Karmada impersonates a service account with its derived groups, which members refuse",
            "log in to the host as a user",
        )),
        Dialect::KubeAdmiral => findings.extend(aggregation(host, client).await),
        _ => {}
    }
    findings
}

/// KubeAdmiral lists clusters with CRDs, but reaches them through an aggregated API that its
/// releases do not serve.
async fn aggregation(host: &ClusterContext, client: &kube::Client) -> Option<Finding> {
    let reply = client::get_by(client, AGGREGATED, "application/json").await.ok()?;
    (reply.status == StatusCode::NOT_FOUND).then(|| {
        Finding::problem(
            "hub",
            "KubeAdmiral lists clusters here, and serves no path to them (aggregated.kubeadmiral.io)",
            Some(
                CommandLine::new(format!("{} clusters --contexts", host.kubectl_mc_file()))
                    .after("work on contexts of your kubeconfig"),
            ),
        )
    })
}

const AGGREGATED: &str = "/apis/aggregated.kubeadmiral.io/v1alpha1";
