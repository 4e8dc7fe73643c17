//! Waits for the address of the direct endpoint if a load balancer assigns it: the Service is created before
//! the sidecars, because their serving certificate contains that address.

use std::net::IpAddr;
use std::time::Duration;

use kubectl_mc_api::direct::{SERVICE, Server};
use serde_json::Value;
use tokio::time::sleep;

use super::plan::InstallPlan;
use super::wait::Deadline;
use super::{cleanup, get, made};
use crate::apply::delete::Delete;
use crate::apply::object::Object;
use crate::apply::{Applied, Apply, ApplyError};
use crate::cluster::connection::Connection;
use crate::error::{CommandLine, Failure};
use crate::progress::Step;

/// The plan with the address of the load balancer, if it already has one.
pub(crate) async fn with_known_address(
    plan: InstallPlan,
    runs_on: &Connection,
) -> Result<InstallPlan, Failure> {
    if !plan.lacks_address() {
        return Ok(plan);
    }
    let server = address(&runs_on.client, &plan.parameters.namespace).await?;
    Ok(server.into_iter().fold(plan, InstallPlan::with_direct_server))
}

/// Creates the Service, and waits for the address of its load balancer.
pub(crate) async fn with_new_address(
    plan: InstallPlan,
    runs_on: &Connection,
    applying: Apply,
    deadline: &Deadline,
    step: &mut Step<'_>,
    report: impl FnMut(&Applied),
) -> Result<InstallPlan, Failure> {
    let namespace = &plan.parameters.namespace;
    let mut objects = made(plan.parameters.home())?;
    super::host::keep_foreign_namespaces(&runs_on.client, &mut objects).await?;
    objects.extend(made(plan.parameters.direct_service())?);
    applying.each(runs_on, objects, report).await?;
    loop {
        if let Some(server) = address(&runs_on.client, namespace).await? {
            return Ok(plan.with_direct_server(server));
        }
        if deadline.is_over() {
            let shown = format!("{} -n {namespace} describe service {SERVICE}", runs_on.cluster.kubectl());
            let hint = CommandLine::new(shown).that(
                "shows why; --direct-server=URL names an address that is known, and --expose=none does without",
            );
            let text = format!("the load balancer of Service {SERVICE} has no address");
            return Err(Failure::new(text).with_hint(hint));
        }
        step.update(&format!("the load balancer of Service {SERVICE} has no address yet"));
        sleep(POLL).await;
    }
}

/// The remains of a direct endpoint, or of a hub's inventory, that this installation does not have.
pub(crate) struct Unexposed<'a> {
    /// The remains in each cluster.
    surplus: Vec<(&'a Connection, Vec<Value>)>,
}

impl<'a> Unexposed<'a> {
    pub(crate) async fn find(
        host: &'a Connection,
        remote: Option<&'a Connection>,
        plan: &InstallPlan,
    ) -> Result<Self, Failure> {
        let mut surplus = Vec::new();
        for cluster in [host].into_iter().chain(remote) {
            surplus.push((cluster, cleanup::of_other_values(cluster, &plan.parameters).await?));
        }
        Ok(Self { surplus })
    }

    pub(crate) async fn delete(
        &self,
        delete: Delete,
        mut report: impl FnMut(&Object),
    ) -> Result<(), ApplyError> {
        for (cluster, objects) in &self.surplus {
            delete.each(cluster, objects.iter().cloned(), &mut report).await?;
        }
        Ok(())
    }
}

async fn address(client: &kube::Client, namespace: &str) -> Result<Option<Server>, Failure> {
    let service = get(client, &format!("/api/v1/namespaces/{namespace}/services/{SERVICE}")).await?;
    let Some(address) = assigned(&service) else { return Ok(None) };
    let host = match address.parse::<IpAddr>() {
        Ok(address @ IpAddr::V6(_)) => format!("[{address}]"),
        _ => address.to_owned(),
    };
    match format!("https://{host}").parse() {
        Ok(server) => Ok(Some(server)),
        Err(_) => Err(Failure::new(format!(
            "the load balancer of Service {SERVICE} has an invalid address: {address:?}"
        ))
        .with_hint("--direct-server=URL names the address")),
    }
}

/// The first address of a load balancer. A name is preferred, because it stays when addresses change.
fn assigned(service: &Value) -> Option<&str> {
    let points = || service["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    let first =
        |field: &str| points().filter_map(|point| point[field].as_str()).find(|address| !address.is_empty());
    first("hostname").or_else(|| first("ip"))
}

const POLL: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn load_balancer_name_comes_before_its_addresses() {
        let service = |ingress: Value| json!({"status": {"loadBalancer": {"ingress": ingress}}});
        for (ingress, address) in [
            (json!(null), None),
            (json!([]), None),
            (json!([{"ip": "203.0.113.7"}]), Some("203.0.113.7")),
            (json!([{"ip": "203.0.113.7"}, {"hostname": "lb.example"}]), Some("lb.example")),
            (json!([{"hostname": "", "ip": "2001:db8::7"}]), Some("2001:db8::7")),
        ] {
            assert_eq!(assigned(&service(ingress)), address);
        }
    }
}
