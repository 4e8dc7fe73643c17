//! An object as JSON: its name for people and its place in the API. The plural is guessed by Kubernetes' own
//! rule, and what has a namespace says so: true of all that this program writes, and it saves the discovery.

use std::fmt;

use kube::api::{Api, ApiResource, GroupVersionKind};
use kube::core::DynamicObject;
use serde_json::Value;

use super::ApplyError;

/// An object with a kind and a name.
#[derive(Clone)]
pub(crate) struct Object {
    value: Value,
    resource: Box<ApiResource>,
}

impl Object {
    pub(crate) fn new(value: Value) -> Result<Self, ApplyError> {
        let text = |path: &str| value.pointer(path).and_then(Value::as_str);
        let api_version = text("/apiVersion").ok_or(ApplyError::NotAnObject("it has no apiVersion"))?;
        let kind = text("/kind").ok_or(ApplyError::NotAnObject("it has no kind"))?;
        text("/metadata/name").ok_or(ApplyError::NotAnObject("it has no name"))?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = Box::new(ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)));
        Ok(Self { value, resource })
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    pub(crate) fn name(&self) -> &str {
        self.text("/metadata/name").unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.text("/metadata/namespace")
    }

    pub(crate) fn kind(&self) -> &str {
        &self.resource.kind
    }

    pub(crate) fn group(&self) -> &str {
        &self.resource.group
    }

    pub(super) fn api(&self, client: &kube::Client) -> Api<DynamicObject> {
        let resource: &ApiResource = &self.resource;
        match self.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
            None => Api::all_with(client.clone(), resource),
        }
    }

    /// As the cluster has it.
    pub(crate) async fn get(&self, client: &kube::Client) -> Result<Option<Value>, ApplyError> {
        match self.api(client).get(self.name()).await {
            Ok(found) => serde_json::to_value(found).map(Some).map_err(|source| self.unreadable(source)),
            // Also where the kind is unknown, of which the answer is no Status.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(source) => Err(self.refused("get", source)),
        }
    }

    pub(super) fn refused(&self, verb: &'static str, source: kube::Error) -> ApplyError {
        ApplyError::Refused { verb, object: self.clone(), source: Box::new(source) }
    }

    pub(super) fn unreadable(&self, source: serde_json::Error) -> ApplyError {
        ApplyError::Unreadable { object: self.clone(), source }
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.value.pointer(path).and_then(Value::as_str)
    }
}

/// As kubectl names it: `deployment.apps/web`.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource.kind.to_lowercase())?;
        if !self.resource.group.is_empty() {
            write!(f, ".{}", self.resource.group)?;
        }
        write!(f, "/{}", self.name())
    }
}

/// Without its content, which may be a Secret's.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_plurals_of_all_kinds_that_are_written_are_kubernetes_own() {
        for (api_version, kind, plural) in [
            ("v1", "Namespace", "namespaces"),
            ("v1", "ConfigMap", "configmaps"),
            ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
            ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
            ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
            ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings"),
            ("apiregistration.k8s.io/v1", "APIService", "apiservices"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
            ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
            ("fleet.kubectl-mc.dev/v1alpha1", "MemberCluster", "memberclusters"),
            ("cert-manager.io/v1", "Certificate", "certificates"),
        ] {
            let value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
            let object = Object::new(value).unwrap();
            assert_eq!(object.resource.plural, plural);
            assert_eq!(object.group(), api_version.split_once('/').map_or("", |(group, _)| group));
        }
    }

    #[test]
    fn what_has_no_name_is_no_object() {
        let error = Object::new(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}})).unwrap_err();
        assert_eq!(error.to_string(), "not an object: it has no name");
    }

    #[test]
    fn its_name_is_kubectls() {
        let object = |api_version, kind| {
            let value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "data": {"k": "secret"}});
            Object::new(value).unwrap()
        };
        assert_eq!(object("apps/v1", "Deployment").to_string(), "deployment.apps/x");
        assert_eq!(format!("{:?}", object("v1", "Secret")), "secret/x");
    }
}
