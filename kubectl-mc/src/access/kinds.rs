//! Resolves `pods`, `po`, `Deployment` or `deployments.apps/scale` to a resource that the member serves.

use http::Method;
use kubectl_mc_api::ClusterName;
use serde_json::Value;

use super::through;
use crate::cluster::connection::Connection;
use crate::cluster::context::ClusterContext;
use crate::error::Failure;

/// A resource as authorizers know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceAttributes {
    pub(crate) group: String,
    /// The plural.
    pub(crate) resource: String,
    pub(crate) subresource: Option<String>,
    pub(crate) namespaced: bool,
    /// The path without namespaces, such as `/apis/apps/v1`, if the member was queried.
    pub(crate) root: Option<String>,
    /// The name of an object, if one follows the resource.
    pub(crate) object: Option<String>,
}

impl ResourceAttributes {
    /// Parses the resource as typed. The part after a slash is a subresource if its name is a common one.
    pub(crate) fn typed(typed: &str) -> Self {
        let (name, rest) = typed.split_once('/').map_or((typed, None), |(name, rest)| (name, Some(rest)));
        let (resource, group) = name.split_once('.').unwrap_or((name, ""));
        let (subresource, object) = match rest {
            Some(rest) if SUBRESOURCES.contains(&rest) => (Some(rest.to_owned()), None),
            rest => (None, rest.map(str::to_owned)),
        };
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource,
            namespaced: !CLUSTER_WIDE.contains(&resource),
            root: None,
            object,
        }
    }
}

/// Looks the resource up on the member; returns `None` if the member does not serve it.
pub(crate) async fn find(
    typed: &str,
    member: &Connection,
    host: &ClusterContext,
    cluster: &ClusterName,
) -> Result<Option<ResourceAttributes>, Failure> {
    let wanted = ResourceAttributes::typed(typed);
    let rest = typed.split_once('/').map(|(_, rest)| rest);
    let group = Some(wanted.group.as_str()).filter(|group| !group.is_empty());
    let served = |list: &Value, group: &str, root: &str| {
        let (resource, namespaced) = among(list, &wanted.resource)?;
        // This includes subresources that only this member serves.
        let is_subresource = rest.is_some_and(|rest| has(list, &format!("{resource}/{rest}")));
        let (subresource, object) = if is_subresource { (rest, None) } else { (None, rest) };
        let (subresource, object) = (subresource.map(str::to_owned), object.map(str::to_owned));
        let (group, root) = (group.to_owned(), Some(root.to_owned()));
        Some(ResourceAttributes { group, resource, subresource, namespaced, root, object })
    };
    if group.is_none() {
        let core = listed(member, host, cluster, "/api/v1").await?;
        if let Some(found) = served(&core, "", "/api/v1") {
            return Ok(Some(found));
        }
    }
    let groups = listed(member, host, cluster, "/apis").await?;
    for group_served in groups["groups"].as_array().into_iter().flatten() {
        let name = group_served["name"].as_str().unwrap_or_default();
        if group.is_some_and(|group| group != name) {
            continue;
        }
        let Some(version) = group_served["preferredVersion"]["groupVersion"].as_str() else { continue };
        let path = format!("/apis/{version}");
        let Ok(list) = listed(member, host, cluster, &path).await else { continue };
        if let Some(found) = served(&list, name, &path) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

async fn listed(
    member: &Connection,
    host: &ClusterContext,
    cluster: &ClusterName,
    path: &str,
) -> Result<Value, Failure> {
    let answer = through::ask(member, host, cluster, Method::GET, path, None).await?;
    if !answer.status.is_success() {
        return Err(member.refused(format!("get {path}"), &answer).into());
    }
    Ok(answer.json())
}

fn has(list: &Value, name: &str) -> bool {
    list["resources"].as_array().into_iter().flatten().any(|resource| resource["name"] == name)
}

/// Common subresources of Kubernetes.
#[rustfmt::skip]
const SUBRESOURCES: &[&str] = &[
    "approval", "attach", "binding", "ephemeralcontainers", "eviction", "exec", "finalize", "log", "portforward",
    "proxy", "resize", "scale", "status", "token",
];
/// Common cluster-scoped resources of Kubernetes.
#[rustfmt::skip]
const CLUSTER_WIDE: &[&str] = &[
    "nodes", "namespaces", "persistentvolumes", "storageclasses", "clusterroles", "clusterrolebindings",
    "customresourcedefinitions", "priorityclasses", "ingressclasses", "runtimeclasses", "apiservices",
];

/// Finds the plural for a name, a singular, a kind or a short name in an APIResourceList.
fn among(list: &Value, typed: &str) -> Option<(String, bool)> {
    let typed = typed.to_ascii_lowercase();
    let resources = list["resources"].as_array()?;
    let found = resources.iter().find(|resource| {
        let is =
            |field: &str| resource[field].as_str().is_some_and(|name| name.to_ascii_lowercase() == typed);
        let short =
            resource["shortNames"].as_array().is_some_and(|names| names.iter().any(|name| name == &typed));
        let sub = resource["name"].as_str().is_some_and(|name| name.contains('/'));
        !sub && (is("name") || is("singularName") || is("kind") || short)
    })?;
    Some((found["name"].as_str()?.to_owned(), found["namespaced"] == true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn slash_means_a_subresource_or_an_object() {
        let typed = |text: &str| {
            let ResourceAttributes { resource, subresource, object, .. } = ResourceAttributes::typed(text);
            (resource, subresource.unwrap_or_default(), object.unwrap_or_default())
        };
        let expected = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(typed("pods/log"), expected("pods", "log", ""));
        assert_eq!(typed("pod/web"), expected("pod", "", "web"));
        assert_eq!(typed("deployments.apps/web"), expected("deployments", "", "web"));
        assert!(!ResourceAttributes::typed("nodes").namespaced);
    }

    #[test]
    fn resource_is_found_by_each_of_its_names() {
        let list = json!({"resources": [
            {"name": "pods/log", "singularName": "", "kind": "Pod", "namespaced": true},
            {"name": "pods", "singularName": "pod", "kind": "Pod", "shortNames": ["po"], "namespaced": true},
            {"name": "nodes", "singularName": "node", "kind": "Node", "namespaced": false},
        ]});
        for typed in ["pods", "pod", "po", "Pod"] {
            assert_eq!(among(&list, typed), Some(("pods".to_owned(), true)), "{typed}");
        }
        assert_eq!(among(&list, "node"), Some(("nodes".to_owned(), false)));
        assert_eq!(among(&list, "jobs"), None);
    }
}
