//! Sends requests to a member through the caller's proxy path, and reports refusals of the hops on that path.

use http::Method;
use kubectl_mc_api::{ClusterName, path};
use serde_json::Value;

use crate::cluster::client::Reply;
use crate::cluster::connection::{self, Connection};
use crate::cluster::context::ClusterContext;
use crate::cluster::hop::Asked;
use crate::env::Env;
use crate::error::Failure;

/// The member behind this host, with the caller's identity.
pub(crate) async fn member(
    host: &ClusterContext,
    cluster: &ClusterName,
    env: &Env,
) -> Result<Connection, Failure> {
    let server = format!("{}{}", host.server, path::member_root(cluster));
    connection::to("member", ClusterContext { server, ..host.clone() }, env).await
}

/// The member's response, or the refusal of a hop before it.
pub(crate) async fn ask(
    member: &Connection,
    host: &ClusterContext,
    cluster: &ClusterName,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Reply, Failure> {
    let answer = member.send(method, path, body.map(|body| ("application/json", body))).await?;
    match answer.refusal() {
        Some(refusal) => {
            let text = format!("cluster {cluster} through {}: {refusal}", host.describe());
            let hint = refusal.hint(host, Some(cluster), &Asked::default());
            Err(Failure::new(text).with_hint(hint).with_status(refusal.exit_status()))
        }
        None => Ok(answer),
    }
}
