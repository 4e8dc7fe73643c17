//! Serves `clusters`, the read-only view of the inventory in the host's API: get, list and watch with the
//! same answers as a kube-apiserver, so that kubectl, client-go and the plugin work without special code. It
//! contains names, labels, servers, versions and conditions, never credentials.
//!
//! - [`registry`]: the known clusters, and the log of recent changes that watches follow
//! - [`object`], [`table`], [`form`]: the formats of a cluster
//! - [`accept`], [`options`], [`selector`], [`continuation`]: the parsed request
//! - [`visibility`]: which clusters the caller sees
//! - [`list`], [`watch`]: the answers

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, request};
use kubectl_mc_api::ClusterName;

use crate::head::request_info::Verb;
use crate::outbound::body::Body;

pub(crate) mod accept;
mod continuation;
mod error;
mod form;
mod list;
mod object;
mod options;
mod registry;
mod selector;
mod table;
mod visibility;
mod watch;

pub use error::Error;
#[cfg(test)]
pub(crate) use options::accepts;
pub use registry::{Registry, Writer};
pub use visibility::Viewer;

use accept::Shape;
use form::Form;
use options::Options;

/// Answers a get, list or watch of clusters.
pub async fn respond(
    registry: &Registry,
    viewer: Viewer,
    verb: Verb,
    name: Option<&ClusterName>,
    parts: &request::Parts,
) -> Result<Response<Body>, Error> {
    let query = parts.uri.query();
    let shape = |list| {
        let all: &[Shape] = if list {
            &[Shape::Object, Shape::Table, Shape::MetadataList]
        } else {
            &[Shape::Object, Shape::Table, Shape::Metadata]
        };
        accept::negotiate(&parts.headers, all)
    };
    let body = match (verb, name) {
        (_, Some(name)) => {
            let shape = shape(false)?;
            let options = Options::of_get(query)?;
            let origin = registry.snapshot()?.clusters.get(name.as_str()).map(|cluster| cluster.origin());
            if !viewer.sees_one(name, origin.unwrap_or_default()).await? {
                return Err(Error::NotFound(name.clone()));
            }
            list::one(registry, name, &options, Form::new(shape, options.include)).await?.into()
        }
        (Verb::Watch, None) => {
            let shape = shape(false)?;
            let mut options = Options::of_watch(query)?;
            let names = options.selection.names(&*registry.snapshot()?);
            options.selection.visible = viewer.sees(names).await?;
            let form = Form::new(shape, options.include);
            Body::Stream(watch::start(registry, options, form, Some(viewer)).await?)
        }
        (_, None) => {
            let shape = shape(true)?;
            let mut options = Options::of_list(query)?;
            let names = options.selection.names(&*registry.snapshot()?);
            options.selection.visible = viewer.sees(names).await?;
            list::page(registry, &options, Form::new(shape, options.include)).await?.into()
        }
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    // A kube-apiserver sends the same content type for tables and watches.
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}
