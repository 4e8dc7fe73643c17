//! Checks the host before the first apply, and finds objects that the plugin did not create.

use kubectl_mc_api::names::{KUBECTL_MC, MANAGED_BY, SIDECAR};
use serde_json::Value;

use super::{InstallError, get};
use crate::cluster::kubernetes_version::{HOST_MINIMUM, KubernetesVersion};
use crate::next_command::quoted;

/// Fails if the sidecar could not work, or if another tool installed it.
pub(crate) async fn check(client: &kube::Client, namespace: &str) -> Result<(), InstallError> {
    let version = get(client, "/version").await?;
    let version = version["gitVersion"].as_str().unwrap_or_default();
    if KubernetesVersion::parse(version).is_some_and(|version| version < HOST_MINIMUM) {
        return Err(InstallError::OldHost { version: version.to_owned() });
    }
    let published =
        get(client, "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication").await?;
    let missing = missing(&published["data"]);
    if !missing.is_empty() {
        return Err(InstallError::NoFrontProxy { missing: missing.join(", ") });
    }
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{SIDECAR}");
    let deployment = get(client, &path).await?;
    let metadata = &deployment["metadata"];
    if metadata["labels"][MANAGED_BY] == "Helm" {
        let release = metadata["annotations"]["meta.helm.sh/release-name"].as_str().unwrap_or_default();
        return Err(InstallError::Foreign {
            owner: format!("Helm, as release {release:?}"),
            hint: format!("upgrade it by Helm: helm -n {namespace} upgrade {}", quoted(release.as_ref())),
        });
    }
    Ok(())
}

/// The missing keys that the sidecar needs to authenticate callers.
fn missing(published: &Value) -> Vec<String> {
    let needed =
        ["requestheader-client-ca-file", "requestheader-username-headers", "requestheader-group-headers"];
    let is_empty = |key: &str| {
        let text = published[key].as_str().unwrap_or_default().trim();
        text.is_empty() || text == "[]"
    };
    let missing = needed.into_iter().filter(|key| is_empty(key));
    missing.map(|key| format!("no {key}")).collect()
}

/// Removes the namespaces that the plugin did not create from the objects, and returns their names.
pub(crate) async fn keep_foreign_namespaces(
    client: &kube::Client,
    objects: &mut Vec<Value>,
) -> Result<Vec<String>, InstallError> {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let namespaces: Vec<_> = objects.iter().filter(|object| is_namespace(object)).map(name).collect();
    let mut foreign = Vec::new();
    for name in namespaces {
        let found = get(client, &format!("/api/v1/namespaces/{name}")).await?;
        if !found.is_null() && found["metadata"]["labels"][MANAGED_BY] != KUBECTL_MC {
            foreign.push(name);
        }
    }
    objects.retain(|object| !is_namespace(object) || !foreign.contains(&name(object)));
    Ok(foreign)
}

fn is_namespace(object: &Value) -> bool {
    object["kind"] == "Namespace"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_front_proxy_keys_are_named() {
        let whole = json!({
            "requestheader-client-ca-file": "-----BEGIN",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
        });
        assert!(missing(&whole).is_empty());
        let mut without = whole;
        without["requestheader-group-headers"] = "[]".into();
        assert_eq!(missing(&without), ["no requestheader-group-headers"]);
        assert_eq!(missing(&Value::Null).len(), 3);
    }
}
