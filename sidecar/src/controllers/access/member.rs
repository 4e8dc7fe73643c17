//! Reads and writes a member's impersonation roles and bindings with its manager's credential.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::ListParams;
use kube::core::Status;
use kubectl_mc_api::access::{Actual, Objects, Policy};
use kubectl_mc_api::names::{KUBECTL_MC, MANAGED_BY, MANAGER, NAMESPACE};

use crate::controllers::objects;

/// Reads the member's policy and its current roles and bindings of this name.
pub(super) async fn read(member: &kube::Client, rights: &str) -> Result<(Policy, Actual), kube::Error> {
    let policies = Api::<ConfigMap>::namespaced(member.clone(), NAMESPACE);
    let cluster_roles = Api::<ClusterRole>::all(member.clone());
    let cluster_role_bindings = Api::<ClusterRoleBinding>::all(member.clone());
    let roles = Api::<Role>::all(member.clone());
    let role_bindings = Api::<RoleBinding>::all(member.clone());
    // A list with a field selector for one name needs only the right to that name.
    let ours = ListParams::default().fields(&format!("metadata.name={rights}"));
    let (policy, cluster_role, cluster_role_binding, roles, role_bindings) = tokio::try_join!(
        policies.get_opt(MANAGER),
        cluster_roles.get_opt(rights),
        cluster_role_bindings.get_opt(rights),
        roles.list(&ours),
        role_bindings.list(&ours),
    )?;
    let policy = policy.and_then(|map| map.data).map(|data| Policy::parse(&data)).unwrap_or_default();
    let actual =
        Actual { cluster_role, cluster_role_binding, roles: roles.items, role_bindings: role_bindings.items };
    Ok((policy, actual))
}

/// The result of writing the objects.
pub(super) struct Applied {
    pub(super) written: usize,
    /// Namespaces that the member does not have or is deleting.
    pub(super) homeless: Vec<String>,
}

/// Writes the objects of the name `rights` that differ on the member and deletes surplus ones.
pub(super) async fn apply(
    member: &kube::Client,
    rights: &str,
    wanted: &Objects,
    actual: &Actual,
) -> Result<Applied, kube::Error> {
    let mut applied = Applied { written: 0, homeless: Vec::new() };
    let Objects { cluster_role, cluster_role_binding, roles } = wanted;
    // Rights are removed before others are granted.
    let is_surplus = |metadata: &ObjectMeta| {
        metadata.namespace.as_ref().filter(|&namespace| !roles.contains_key(namespace)).cloned()
    };
    for namespace in actual.roles.iter().filter_map(|role| is_surplus(&role.metadata)) {
        objects::delete(&Api::<Role>::namespaced(member.clone(), &namespace), rights).await?;
        applied.written += 1;
    }
    for namespace in actual.role_bindings.iter().filter_map(|binding| is_surplus(&binding.metadata)) {
        objects::delete(&Api::<RoleBinding>::namespaced(member.clone(), &namespace), rights).await?;
        applied.written += 1;
    }
    if !actual.cluster_role.as_ref().is_some_and(|role| {
        is_ours(&role.metadata)
            && role.aggregation_rule.is_none()
            && same(role.rules.as_deref(), cluster_role.rules.as_deref())
    }) {
        objects::apply(&Api::all(member.clone()), cluster_role).await?;
        applied.written += 1;
    }
    if !actual.cluster_role_binding.as_ref().is_some_and(|binding| {
        is_ours(&binding.metadata) && binding.subjects == cluster_role_binding.subjects
    }) {
        objects::apply(&Api::all(member.clone()), cluster_role_binding).await?;
        applied.written += 1;
    }
    let mut failed = None;
    for (namespace, (role, binding)) in roles {
        let here = |metadata: &ObjectMeta| metadata.namespace.as_ref() == Some(namespace);
        let has_role = actual.roles.iter().any(|actual| {
            here(&actual.metadata)
                && is_ours(&actual.metadata)
                && same(actual.rules.as_deref(), role.rules.as_deref())
        });
        let has_binding = actual.role_bindings.iter().any(|actual| {
            here(&actual.metadata)
                && is_ours(&actual.metadata)
                && actual.subjects == binding.subjects
                && actual.role_ref == binding.role_ref
        });
        let written = async {
            if !has_role {
                objects::apply(&Api::namespaced(member.clone(), namespace), role).await?;
            }
            if !has_binding {
                objects::apply(&Api::namespaced(member.clone(), namespace), binding).await?;
            }
            Ok::<_, kube::Error>(usize::from(!has_role) + usize::from(!has_binding))
        };
        match written.await {
            Ok(written) => applied.written += written,
            Err(kube::Error::Api(status)) if is_missing(&status) => applied.homeless.push(namespace.clone()),
            // The other namespaces still get their rights.
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(applied), Err)
}

/// Whether the namespace does not exist, or is being deleted, which a finalizer can delay for long.
fn is_missing(refusal: &Status) -> bool {
    let causes = refusal.details.iter().flat_map(|details| &details.causes);
    refusal.code == 404 || causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

fn is_ours(metadata: &ObjectMeta) -> bool {
    metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|by| by == KUBECTL_MC)
}

/// Compares rules; an absent list equals an empty one.
fn same(one: Option<&[PolicyRule]>, other: Option<&[PolicyRule]>) -> bool {
    one.unwrap_or_default() == other.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::host::fake;

    fn refusal(cause: Value) -> (u16, Value) {
        let details = json!({"causes": [cause]});
        (403, json!({"kind": "Status", "apiVersion": "v1", "code": 403, "details": details}))
    }

    /// The result for roles in these namespaces, and those in which both objects were written.
    async fn applied(namespaces: &[&str]) -> (Result<Vec<String>, kube::Error>, Vec<String>) {
        let (written, wrote) = std::sync::mpsc::channel();
        let (member, _) = fake::host(move |object| match object["metadata"]["namespace"].as_str() {
            Some("ends") => refusal(json!({"reason": "NamespaceTerminating"})),
            Some("refuses") => refusal(json!({})),
            namespace => {
                written.send(namespace.map(str::to_owned)).unwrap();
                (200, object.clone())
            }
        });
        let named = |namespace: Option<&str>| {
            let (name, namespace) = (Some("rights".to_owned()), namespace.map(str::to_owned));
            ObjectMeta { name, namespace, ..ObjectMeta::default() }
        };
        let roles = namespaces.iter().map(|namespace| {
            let role = Role { metadata: named(Some(namespace)), ..Role::default() };
            let binding = RoleBinding { metadata: named(Some(namespace)), ..RoleBinding::default() };
            ((*namespace).to_owned(), (role, binding))
        });
        let objects = Objects {
            cluster_role: ClusterRole { metadata: named(None), ..ClusterRole::default() },
            cluster_role_binding: ClusterRoleBinding { metadata: named(None), ..Default::default() },
            roles: roles.collect(),
        };
        let result =
            apply(&member, "rights", &objects, &Actual::default()).await.map(|applied| applied.homeless);
        (result, wrote.try_iter().flatten().collect())
    }

    #[tokio::test]
    async fn namespace_that_is_being_deleted_counts_as_missing() {
        let (homeless, written) = applied(&["a", "ends", "z"]).await;
        assert_eq!(homeless.unwrap(), ["ends"]);
        assert_eq!(written, ["a", "a", "z", "z"]);
    }

    #[tokio::test]
    async fn refusal_in_one_namespace_does_not_stop_the_others() {
        let (refused, written) = applied(&["a", "refuses", "z"]).await;
        assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));
        assert_eq!(written, ["a", "a", "z", "z"]);
    }
}
