//! Answers a get of one cluster, or a page of a list.

use std::borrow::Cow;
use std::ops::Bound;

use kubectl_mc_api::ClusterName;

use super::continuation::Continuation;
use super::error::Error;
use super::form::{Form, Page};
use super::options::Options;
use super::registry::{Clusters, Registry};

pub(super) async fn one(
    registry: &Registry,
    name: &ClusterName,
    options: &Options,
    form: Form,
) -> Result<Vec<u8>, Error> {
    let snapshot = registry.not_older_than(options.version.unwrap_or_default()).await?;
    let cluster = snapshot.clusters.get(name.as_str()).ok_or_else(|| Error::NotFound(name.clone()))?;
    let mut out = Vec::new();
    form.write_one(&mut out, cluster, true);
    Ok(out)
}

/// A page of a list. All pages have the same version: the log can restore earlier clusters.
pub(super) async fn page(registry: &Registry, options: &Options, form: Form) -> Result<Vec<u8>, Error> {
    let asked =
        options.continuation.as_ref().map(|next| next.version).or(options.version).unwrap_or_default();
    let snapshot = registry.not_older_than(asked).await?;
    let (version, clusters) = if options.continuation.is_some() || options.exact {
        (asked, Cow::Owned(snapshot.at(asked).ok_or(Error::Expired)?))
    } else {
        (snapshot.version, Cow::Borrowed(&snapshot.clusters))
    };
    Ok(form.page(&cut(&clusters, version, options)?))
}

fn cut(clusters: &Clusters, version: u64, options: &Options) -> Result<Page, Error> {
    let begin =
        options.continuation.as_ref().map_or(Bound::Unbounded, |next| Bound::Excluded(next.after.as_str()));
    let mut rest = clusters.range::<str, _>((begin, Bound::Unbounded)).map(|(_, cluster)| cluster);
    let mut selected = rest.by_ref().filter(|cluster| options.selection.matches(cluster));
    let limit = options.limit.unwrap_or(usize::MAX);
    let clusters: Vec<_> = selected.by_ref().take(limit).cloned().collect();
    let more = selected.next().is_some();
    let remaining = (more && options.selection.is_everything()).then(|| rest.count() + 1);
    let next = match clusters.last() {
        Some(last) if more => Some(Continuation { version, after: name(last.name())? }.encode()),
        _ => None,
    };
    Ok(Page { version, clusters, next, remaining })
}

fn name(name: &str) -> Result<ClusterName, Error> {
    name.parse().map_err(|_| Error::BadRequest(format!("the list cannot be paged at {name:?}")))
}

#[cfg(test)]
mod tests;
