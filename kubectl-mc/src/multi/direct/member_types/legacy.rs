//! Reads discovery from members without aggregated discovery (before Kubernetes 1.27): one document for each
//! version of each group.

use bytes::Bytes;
use serde::Deserialize;
use tokio::task::JoinSet;

use crate::multi::direct::answer;
use crate::multi::direct::discovery::{ApiResource, Discovery};
use crate::multi::direct::member::Member;
use crate::multi::direct::path_name::is_name;
use crate::multi::fault::Fault;

/// The response to `/api` (versions) and to `/apis` (groups).
#[derive(Debug, Deserialize)]
struct Root {
    #[serde(default)]
    versions: Vec<String>,
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    #[serde(default)]
    versions: Vec<Version>,
    preferred_version: Option<Version>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Version {
    version: String,
}

/// The types of one version of a group.
#[derive(Debug, Deserialize)]
struct Types {
    #[serde(default)]
    resources: Vec<Type>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Type {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    kind: String,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

/// Requests the documents of all groups. An unavailable group is omitted, as in kubectl.
pub(super) async fn ask(member: &Member, core: &[u8], groups: &[u8]) -> Result<Discovery, Fault> {
    let versions = versions(core, groups)?;
    let mut asked = JoinSet::new();
    let mut types: Vec<Vec<ApiResource>> = versions.iter().map(|_| Vec::new()).collect();
    for (at, (group, version)) in versions.into_iter().enumerate() {
        if asked.len() >= AT_ONCE {
            take(asked.join_next().await, &mut types)?;
        }
        let member = member.clone();
        asked.spawn(async move {
            let path =
                if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
            (at, group, version, member.get(&path, "application/json").await)
        });
    }
    while let Some(answer) = asked.join_next().await {
        take(Some(answer), &mut types)?;
    }
    Ok(types.into_iter().flatten().collect())
}

type Answer = (usize, String, String, Result<Bytes, Fault>);

fn take(
    answer: Option<Result<Answer, tokio::task::JoinError>>,
    types: &mut [Vec<ApiResource>],
) -> Result<(), Fault> {
    let Some(answer) = answer else { return Ok(()) };
    let (at, group, version, body) = answer.map_err(|_| Fault::died())?;
    match body {
        Ok(body) => types[at] = of_version(&group, &version, &body)?,
        Err(failure) if group.is_empty() => return Err(failure),
        Err(_) => {}
    }
    Ok(())
}

/// All groups and versions in the order of discovery, with the preferred version of each group first.
fn versions(core: &[u8], groups: &[u8]) -> Result<Vec<(String, String)>, Fault> {
    let (core, groups): (Root, Root) =
        (answer::object(core, "APIVersions")?, answer::object(groups, "APIGroupList")?);
    let mut all: Vec<_> = core.versions.into_iter().map(|version| (String::new(), version)).collect();
    for Group { name, versions, preferred_version } in groups.groups {
        let preferred = preferred_version.into_iter().filter(|preferred| versions.contains(preferred));
        let mut ordered: Vec<_> = preferred.collect();
        for version in versions {
            if !ordered.contains(&version) {
                ordered.push(version);
            }
        }
        all.extend(ordered.into_iter().map(|version| (name.clone(), version.version)));
    }
    all.retain(|(group, version)| (group.is_empty() || is_name(group)) && is_name(version));
    Ok(all)
}

fn of_version(group: &str, version: &str, body: &[u8]) -> Result<Vec<ApiResource>, Fault> {
    let types: Types = answer::object(body, "APIResourceList")?;
    // A subresource such as `pods/log` is not a type.
    let types = types.resources.into_iter().filter(|of| !of.name.contains('/'));
    Ok(types
        .map(|of| {
            let Type { name, singular_name, namespaced, kind, short_names, categories } = of;
            ApiResource::new(group, version, kind, name, singular_name)
                .called(short_names, categories)
                .in_namespaces(namespaced)
        })
        .collect())
}

/// kubectl sends as many requests in parallel as its rate limit allows.
const AT_ONCE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferred_version_of_a_group_comes_first() {
        let groups = br#"{"kind":"APIGroupList","groups":[
            {"name":"batch","versions":[{"version":"v1beta1"},{"version":"v1"}],"preferredVersion":{"version":"v1"}},
            {"name":"..","versions":[{"version":"v1"}]},
            {"name":"apps","versions":[{"version":"v1"},{"version":"../../x"}]}]}"#;
        let all = versions(br#"{"kind":"APIVersions","versions":["v1"]}"#, groups).unwrap();
        let names: Vec<_> = all.iter().map(|(group, version)| format!("{group}/{version}")).collect();
        assert_eq!(names, ["/v1", "batch/v1", "batch/v1beta1", "apps/v1"]);
    }

    #[test]
    fn types_have_their_short_names_and_categories() {
        let body = br#"{"kind":"APIResourceList","resources":[
            {"name":"deployments","singularName":"","namespaced":true,"kind":"Deployment","shortNames":["deploy"],"categories":["all"]},
            {"name":"deployments/status","namespaced":true,"kind":"Deployment"}]}"#;
        let discovery: Discovery = of_version("apps", "v1", body).unwrap().into_iter().collect();
        for word in ["deploy", "deployment", "deployments.apps", "all"] {
            let found = discovery.expand(word).unwrap();
            let paths: Vec<_> = found.iter().map(|resource| resource.path(Some("n"))).collect();
            assert_eq!(paths, ["/apis/apps/v1/namespaces/n/deployments"], "{word}");
        }
    }
}
