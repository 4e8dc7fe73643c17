//! Checks the host before the first apply, and finds objects that the plugin did not create.

use std::fmt;

use kubectl_mc_api::names::{API_SERVICE, KUBECTL_MC, MANAGED_BY, SIDECAR};
use serde_json::Value;

use super::{get, get_from};
use crate::cluster::connection::Connection;
use crate::cluster::kubernetes_version::{HOST_MINIMUM, KubernetesVersion};
use crate::error::Failure;
use crate::next_command::quoted;

/// Fails if the sidecar could not work, or if another tool installed it.
pub(crate) async fn check(host: &Connection, namespace: &str) -> Result<(), Failure> {
    let version = get_from(host, "/version").await?;
    let version = version["gitVersion"].as_str().unwrap_or_default();
    if KubernetesVersion::parse(version).is_some_and(|version| version < HOST_MINIMUM) {
        return Err(Failure::new(format!(
            "nothing was applied: the host is Kubernetes {version}; a host must have Kubernetes {HOST_MINIMUM} or later"
        ))
        .with_hint("upgrade the host, or name another: --context=NAME; clusters that are older can be members"));
    }
    let published =
        get_from(host, "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
            .await?;
    let missing = missing(&published["data"]);
    if !missing.is_empty() {
        return Err(Failure::new(format!(
            "nothing was applied: the host's kube-apiserver has no front proxy configured: {} in ConfigMap \
             kube-system/extension-apiserver-authentication",
            missing.join(", ")
        ))
        .with_hint(
            "start the host's kube-apiserver with --requestheader-client-ca-file, --requestheader-username-headers, \
             --requestheader-group-headers, --proxy-client-cert-file and --proxy-client-key-file (Kubernetes: \
             \"Configure the aggregation layer\")",
        ));
    }
    let deployment = get_from(host, &deployment(namespace)).await?;
    match HelmRelease::of(&deployment) {
        Some(release) => Err(release.owns("upgrade it by Helm", "upgrade")),
        None => Ok(()),
    }
}

pub(crate) fn installed_by(owner: impl fmt::Display) -> Failure {
    Failure::new(format!("nothing was changed: the sidecar was installed by {owner}"))
}

/// The path of the sidecars' Deployment.
pub(crate) fn deployment(namespace: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments/{SIDECAR}")
}

/// The path of the plugin's APIService.
pub(crate) fn registration() -> String {
    format!("/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}")
}

/// The release of Helm that an object belongs to.
pub(crate) struct HelmRelease<'a> {
    name: &'a str,
    namespace: &'a str,
}

impl<'a> HelmRelease<'a> {
    pub(crate) fn of(object: &'a Value) -> Option<Self> {
        let metadata = &object["metadata"];
        let text = |key: &str| metadata["annotations"][key].as_str().unwrap_or_default();
        (metadata["labels"][MANAGED_BY] == "Helm").then(|| Self {
            name: text("meta.helm.sh/release-name"),
            namespace: text("meta.helm.sh/release-namespace"),
        })
    }

    /// The failure of a command that would change the release; Helm's verb does it instead.
    pub(crate) fn owns(&self, instead: &str, verb: &str) -> Failure {
        installed_by(self).with_hint(format!("{instead}: {}", self.command(verb)))
    }

    /// Helm's command for the release.
    pub(crate) fn command(&self, verb: &str) -> String {
        let Self { name, namespace } = self;
        format!("helm -n {} {verb} {}", quoted(namespace.as_ref()), quoted(name.as_ref()))
    }
}

impl fmt::Display for HelmRelease<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Helm, as release {:?}", self.name)
    }
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
) -> Result<Vec<String>, Failure> {
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
