//! Represents an object as JSON, with its name for messages and its place in the API. The plural
//! follows Kubernetes' rule, and namespaced objects contain their namespace, so no discovery
//! request is needed.

use std::fmt;
use std::time::Duration;

use kube::api::{Api, ApiResource, GroupVersionKind, Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::Value;
use tokio::time::sleep;

use super::error::{self, ApplyError};
use crate::cluster::connection::{Connection, FIELD_MANAGER};

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

    /// Whether the other object has the same place in the API.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.group() == other.group()
            && self.kind() == other.kind()
            && self.namespace() == other.namespace()
            && self.name() == other.name()
    }

    pub(crate) fn kind(&self) -> &str {
        &self.resource.kind
    }

    pub(crate) fn group(&self) -> &str {
        &self.resource.group
    }

    pub(super) fn api(&self, at: &Connection) -> Api<DynamicObject> {
        let resource: &ApiResource = &self.resource;
        match self.namespace() {
            Some(namespace) => Api::namespaced_with(at.client.clone(), namespace, resource),
            None => Api::all_with(at.client.clone(), resource),
        }
    }

    /// Reads the object from the cluster.
    pub(crate) async fn get(&self, at: &Connection) -> Result<Option<Value>, ApplyError> {
        let api = self.api(at);
        match with_retries(async || api.get(self.name()).await).await {
            Ok(found) => serde_json::to_value(found).map(Some).map_err(|source| self.unreadable(source)),
            // This includes an unknown kind, whose response is not a Status.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(source) => Err(self.refused("get", at, source)),
        }
    }

    /// Applies a JSON merge patch (RFC 7386) to fields that others may own.
    pub(crate) async fn merge(&self, at: &Connection, patch: &Value) -> Result<(), ApplyError> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let api = self.api(at);
        let patched =
            with_retries(async || api.patch(self.name(), &params, &Patch::Merge(patch)).await).await;
        patched.map(drop).map_err(|source| self.refused("patch", at, source))
    }

    pub(super) fn refused(&self, verb: &'static str, at: &Connection, error: kube::Error) -> ApplyError {
        let (object, cluster) = (self.clone(), at.describe());
        let kubectl = at.cluster.kubectl();
        match error {
            kube::Error::Api(status) => ApplyError::Refused { verb, object, cluster, kubectl, status },
            error => ApplyError::Failed { verb, object, cluster, reason: error::reason(error) },
        }
    }

    pub(super) fn unreadable(&self, source: serde_json::Error) -> ApplyError {
        ApplyError::Unreadable { object: self.clone(), source }
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.value.pointer(path).and_then(Value::as_str)
    }
}

/// Retries while the server responds with 429, as it does for some seconds after a new kind was defined.
/// client-go retries ten times, too.
pub(crate) async fn with_retries<T>(
    mut ask: impl AsyncFnMut() -> Result<T, kube::Error>,
) -> Result<T, kube::Error> {
    for _ in 1..ATTEMPTS {
        match ask().await {
            Err(kube::Error::Api(status)) if status.code == 429 => {
                let asked_for = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                sleep(Duration::from_secs(asked_for.into()).clamp(PAUSE, LONGEST_PAUSE)).await;
            }
            answer => return answer,
        }
    }
    ask().await
}

const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The notation of kubectl: `deployment.apps/web`.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource.kind.to_lowercase())?;
        if !self.resource.group.is_empty() {
            write!(f, ".{}", self.resource.group)?;
        }
        write!(f, "/{}", self.name())
    }
}

/// Omits the content, which may be that of a Secret.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use kube::core::response::Status;
    use serde_json::json;

    use super::*;

    fn refusal(code: u16) -> kube::Error {
        let status = json!({
            "status": "Failure", "code": code, "message": "storage is (re)initializing",
            "details": {"retryAfterSeconds": 2},
        });
        kube::Error::Api(Box::new(serde_json::from_value::<Status>(status).unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_requests_is_retried_for_a_limited_time() {
        let begin = tokio::time::Instant::now();
        let mut asked = 0;
        let answer = with_retries(async || {
            asked += 1;
            if asked < 3 { Err(refusal(429)) } else { Ok(asked) }
        });
        assert_eq!(answer.await.unwrap(), 3);
        assert_eq!(begin.elapsed(), Duration::from_secs(4), "as long as it asks for");
        let mut asked = 0;
        let answer = with_retries(async || {
            asked += 1;
            Err::<(), _>(refusal(429))
        });
        assert!(answer.await.is_err());
        assert_eq!(asked, ATTEMPTS);
    }

    #[tokio::test]
    async fn other_errors_are_not_retried() {
        let mut asked = 0;
        let answer = with_retries(async || {
            asked += 1;
            Err::<(), _>(refusal(403))
        });
        assert!(answer.await.is_err());
        assert_eq!(asked, 1);
    }

    #[test]
    fn written_kinds_have_the_plurals_of_kubernetes() {
        for (api_version, kind, plural) in [
            ("v1", "Namespace", "namespaces"),
            ("v1", "ConfigMap", "configmaps"),
            ("v1", "Endpoints", "endpoints"),
            ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
            ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
            ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
            ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings"),
            ("apiregistration.k8s.io/v1", "APIService", "apiservices"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
            ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
            ("fleet.kubectl-mc.dev/v1alpha1", "MemberCluster", "memberclusters"),
            ("fleet.kubectl-mc.dev/v1alpha1", "ClusterAccess", "clusteraccesses"),
            ("cert-manager.io/v1", "Certificate", "certificates"),
        ] {
            let value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
            let object = Object::new(value).unwrap();
            assert_eq!(object.resource.plural, plural);
            assert_eq!(object.group(), api_version.split_once('/').map_or("", |(group, _)| group));
        }
    }

    #[test]
    fn object_without_a_name_is_invalid() {
        let error = Object::new(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}})).unwrap_err();
        assert_eq!(error.to_string(), "invalid object: it has no name");
    }

    #[test]
    fn object_prints_as_kubectl_names_it() {
        let object = |api_version, kind| {
            let value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "data": {"k": "secret"}});
            Object::new(value).unwrap()
        };
        assert_eq!(object("apps/v1", "Deployment").to_string(), "deployment.apps/x");
        assert_eq!(format!("{:?}", object("v1", "Secret")), "secret/x");
    }
}
