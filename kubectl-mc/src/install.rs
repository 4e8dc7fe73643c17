//! Implements the steps of `install` and `uninstall`.
//!
//! - [`plan`]: the installation that the flags describe
//! - [`host`]: the checks of the host before the first apply
//! - [`place`]: the checks of the namespace and the cluster of installed sidecars
//! - [`certificate_rotation`]: changes the issuer of the serving certificate
//! - [`direct`]: the address of the load balancer that exposes the sidecars
//! - [`remote`]: the cluster that runs the sidecars if the host has no nodes
//! - [`wait`]: waits until the sidecars work, or reports why they do not
//! - [`cleanup`]: finds the objects to delete
//! - [`protection`]: lets the host delete objects that its policy protects

pub(crate) mod certificate_rotation;
pub(crate) mod cleanup;
pub(crate) mod command;
pub(crate) mod direct;
pub(crate) mod host;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod protection;
pub(crate) mod remote;
pub(crate) mod uninstall;
pub(crate) mod wait;

use kubectl_mc_api::manifests;
use serde_json::Value;

use crate::apply::{self, object::with_retries};
use crate::cluster::connection::Connection;
use crate::error::{Context, Failure};

/// GETs a path of a cluster's API; a missing object is null.
pub(crate) async fn get(client: &kube::Client, path: &str) -> Result<Value, Failure> {
    request(client, path)
        .await
        .map_err(|error| Failure::new(format!("cannot get {path}: {}", apply::reason(error))))
}

/// The same for the first request to a cluster, which may fail.
pub(crate) async fn get_from(cluster: &Connection, path: &str) -> Result<Value, Failure> {
    request(&cluster.client, path).await.map_err(|error| {
        let is_login = matches!(&error, kube::Error::Api(status) if status.code == 401);
        let text = format!("cannot get {path} from the {}: {}", cluster.describe(), apply::reason(error));
        Failure::new(text).with_hint(match is_login {
            true => "log in again: the credential of the kubeconfig is expired or wrong",
            false => "--context=NAME names another host",
        })
    })
}

async fn request(client: &kube::Client, path: &str) -> Result<Value, kube::Error> {
    let asked = with_retries(async || {
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        client.request(request).await
    });
    match asked.await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Value::Null),
        result => result,
    }
}

/// The objects of a manifest that is built into the program.
pub(crate) fn made<T>(objects: Result<T, manifests::Error>) -> Result<T, Failure> {
    objects.context(|| "cannot make the manifests")
}

/// The roles of the clusters in messages.
pub(crate) const HOST: &str = "host";
pub(crate) const RUNS_ON: &str = "cluster of the sidecars";
