//! Finds members whose Secrets are on the host but whose MemberClusters are not, as after the
//! deletion of their definition. Reads only the Secrets' metadata, and no credentials.

use std::collections::{BTreeMap, BTreeSet};

use http::StatusCode;
use kubectl_mc_api::names::SECRET_TYPE;
use kubectl_mc_api::registration::Invalid;
use kubectl_mc_api::{ClusterName, Registration, path};
use serde_json::Value;

use crate::cluster::client;
use crate::cluster::connection::{Connection, ConnectionError};
use crate::cluster::fields::items;

/// A member without its MemberCluster.
#[derive(Debug)]
pub(crate) struct LostMember {
    pub(crate) name: ClusterName,
    /// The record of its registration, if the leader has written one.
    pub(crate) record: Option<Result<Registration, Invalid>>,
}

/// The lost members of a host.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) members: Vec<LostMember>,
    /// Whether the host serves MemberClusters at all.
    pub(crate) is_defined: bool,
}

/// The lost members whose Secrets are in this namespace, in the order of their names.
///
/// # Errors
///
/// The host does not answer, or the caller may not list its Secrets or MemberClusters.
pub(crate) async fn find(host: &Connection, namespace: &str) -> Result<Lost, ConnectionError> {
    // The Secrets come first: a member that is joined in the meantime has its Secret before its
    // MemberCluster.
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets?fieldSelector=type%3D{SECRET_TYPE}");
    let secrets = metadata(host, &secrets).await?.unwrap_or_default();
    let registered = metadata(host, path::MEMBER_CLUSTERS_PATH).await?;
    let names: BTreeSet<&str> = registered.iter().flat_map(items).filter_map(name).collect();
    let members = items(&secrets).filter_map(|secret| {
        let name = ClusterName::of_member_secret(name(secret)?)?;
        (!names.contains(name.as_str())).then(|| LostMember { record: record(secret), name })
    });
    let mut members: Vec<_> = members.collect();
    members.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Lost { members, is_defined: registered.is_some() })
}

fn name(object: &Value) -> Option<&str> {
    object["metadata"]["name"].as_str()
}

fn record(secret: &Value) -> Option<Result<Registration, Invalid>> {
    let annotations = secret["metadata"]["annotations"].as_object()?;
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    Registration::parse(&annotations.iter().filter_map(text).collect::<BTreeMap<_, _>>())
}

/// A list of metadata; `None` if the kind is not served.
async fn metadata(host: &Connection, path: &str) -> Result<Option<Value>, ConnectionError> {
    let answer = client::get_by(&host.client, path, METADATA).await;
    let answer = answer
        .map_err(|error| ConnectionError::Unreachable { side: host.describe(), reason: error.reason() })?;
    match answer.status {
        StatusCode::NOT_FOUND => Ok(None),
        status if status.is_success() => Ok(Some(answer.json())),
        _ => Err(host.refused(format!("list {path}"), &answer)),
    }
}

/// The lists without the objects' content.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

#[cfg(test)]
mod tests {
    use kubectl_mc_api::names::REGISTRATION;
    use serde_json::json;

    use super::*;

    #[test]
    fn record_is_read_from_the_annotations() {
        let secret =
            |annotations: Value| json!({"metadata": {"name": "m1.member", "annotations": annotations}});
        assert!(record(&json!({"metadata": {}})).is_none());
        assert!(record(&secret(json!({"other": "x"}))).is_none());
        let recorded = record(&secret(json!({REGISTRATION: r#"{"labels":{"a":"b"},"spec":{}}"#})));
        assert_eq!(recorded.unwrap().unwrap().labels["a"], "b");
        assert!(record(&secret(json!({REGISTRATION: "x"}))).unwrap().is_err());
    }
}
