//! Resolves `pods`, `po`, `Deployment` or `deployments.apps/scale` to a resource that the member serves.

use http::Method;
use kubectl_mc_api::ClusterName;
use serde_json::Value;

use super::through;
use crate::cluster::context::ClusterContext;
use crate::error::Failure;
use crate::join::side::Side;

/// A resource as authorizers know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceAttributes {
    pub(crate) group: String,
    /// The plural.
    pub(crate) resource: String,
    pub(crate) subresource: Option<String>,
    pub(crate) namespaced: bool,
}

impl ResourceAttributes {
    /// The resource as the user typed it.
    pub(crate) fn typed(typed: &str) -> Self {
        let (name, subresource) =
            typed.split_once('/').map_or((typed, None), |(name, sub)| (name, Some(sub)));
        let (resource, group) = name.split_once('.').unwrap_or((name, ""));
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.map(str::to_owned),
            namespaced: true,
        }
    }
}

/// Finds it among what the member serves; what is not found there is taken as it was typed.
pub(crate) async fn find(
    typed: &str,
    member: &Side,
    host: &ClusterContext,
    cluster: &ClusterName,
) -> Result<ResourceAttributes, Failure> {
    let wanted = ResourceAttributes::typed(typed);
    let (name, subresource) = (wanted.resource.as_str(), wanted.subresource.clone());
    let group = Some(wanted.group.as_str()).filter(|group| !group.is_empty());
    if group.is_none() {
        let core = through::ask(member, host, cluster, Method::GET, "/api/v1", None).await?;
        if let Some((resource, namespaced)) = among(&core.json(), name) {
            return Ok(ResourceAttributes { group: String::new(), resource, subresource, namespaced });
        }
    }
    let groups = through::ask(member, host, cluster, Method::GET, "/apis", None).await?;
    for served in groups.json()["groups"].as_array().into_iter().flatten() {
        let served_name = served["name"].as_str().unwrap_or_default();
        if group.is_some_and(|group| group != served_name) {
            continue;
        }
        let Some(version) = served["preferredVersion"]["groupVersion"].as_str() else { continue };
        let path = format!("/apis/{version}");
        let list = through::ask(member, host, cluster, Method::GET, &path, None).await?;
        if let Some((resource, namespaced)) = among(&list.json(), name) {
            return Ok(ResourceAttributes {
                group: served_name.to_owned(),
                resource,
                subresource,
                namespaced,
            });
        }
    }
    Ok(wanted)
}

/// The plural of a name, a singular, a kind or a short name in an APIResourceList.
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
    fn a_resource_has_many_names() {
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
