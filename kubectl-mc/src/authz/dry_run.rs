//! Tries writes as an agent, with impersonation and a server-side dry run: they go through the
//! host's authentication, authorizers and admission, but store nothing. Reviews do not go through
//! admission, which decides about the names and contents of new objects.

use http::StatusCode;
use kubectl_mc_api::ownership::{Layout, subject};
use serde_json::{Value, json};

use super::policies::OWN_TYPE;
use crate::cluster::connection::Connection;
use crate::error::Failure;
use crate::printer::Printer;
use crate::server_text::ServerText;

/// A write.
struct Attempt {
    path: String,
    object: Value,
    /// For messages.
    what: String,
    is_needed: bool,
}

/// Prints a line for each write with a wrong outcome; returns the number of lines.
pub(super) async fn check(
    layout: &Layout,
    (cluster, other): (&str, &str),
    host: &Connection,
    printer: &Printer,
) -> Result<usize, Failure> {
    let mut findings = 0;
    for (user, attempts) in [
        (subject::user(cluster), agents(layout, cluster, other)),
        (subject::GENERATOR.to_owned(), registrations(other)),
    ] {
        if let Some(reason) = not_impersonated(&user, host).await? {
            findings += 1;
            printer.out_line(&format!("not checked: writes of {user}: cannot impersonate it: {reason}"));
            continue;
        }
        for Attempt { path, object, what, is_needed } in attempts {
            let reply = host.create_as(&user, subject::GROUP, &format!("{path}?dryRun=All"), &object).await?;
            // The host looks for an object of this name after admission.
            let is_admitted = reply.status.is_success() || reply.status == StatusCode::CONFLICT;
            let line = match (is_needed, reply.status) {
                (true, _) if is_admitted => continue,
                (false, StatusCode::FORBIDDEN) => continue,
                (true, StatusCode::FORBIDDEN) => {
                    format!("missing: {user}: create {what}: {}", reply.message())
                }
                (false, _) if is_admitted => {
                    format!("too wide: {user}: create {what}: the host admits it in a dry run")
                }
                _ => format!("not checked: {user}: create {what}: {}", reply.message()),
            };
            findings += 1;
            printer.out_line(&line);
        }
    }
    Ok(findings)
}

/// Why requests would not be made as the user.
async fn not_impersonated(user: &str, host: &Connection) -> Result<Option<ServerText>, Failure> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let reply = host.create_as(user, subject::GROUP, path, &review).await?;
    if !reply.status.is_success() {
        return Ok(Some(reply.message()));
    }
    let info = reply.json()["status"]["userInfo"].take();
    let is_in_group =
        info["groups"].as_array().is_some_and(|groups| groups.iter().any(|group| group == subject::GROUP));
    // A kubeconfig can impersonate another user itself.
    let is_user = info["username"] == user && is_in_group;
    Ok((!is_user).then(|| ServerText::from("the requests are those of another user".to_owned())))
}

fn agents(layout: &Layout, cluster: &str, other: &str) -> Vec<Attempt> {
    let namespace = &layout.cluster_namespace;
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let secret = |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": OWN_TYPE});
    let mut token = secret(cluster);
    token["type"] = "kubernetes.io/service-account-token".into();
    token["metadata"]["annotations"] = json!({"kubernetes.io/service-account.name": "default"});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": other}});
    let attempt = |path: &str, object: Value, what: String, is_needed| Attempt {
        path: path.to_owned(),
        object,
        what,
        is_needed,
    };
    vec![
        attempt(&secrets, secret(cluster), format!("secrets {namespace}/{cluster} (own)"), true),
        attempt(&secrets, secret(other), format!("secrets {namespace}/{other} (other's)"), false),
        attempt(
            &secrets,
            token,
            format!("secrets {namespace}/{cluster} with the token of a service account"),
            false,
        ),
        attempt(
            &format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"),
            lease,
            format!("leases.coordination.k8s.io {namespace}/{other} (other's)"),
            false,
        ),
    ]
}

fn registrations(cluster: &str) -> Vec<Attempt> {
    let name = format!("system:karmada:{cluster}:agent");
    let everything = json!({"apiGroups": ["*"], "resources": ["namespaces", "leases"], "verbs": ["*"]});
    vec![Attempt {
        path: "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
        object: json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [everything],
        }),
        what: format!("clusterroles.rbac.authorization.k8s.io {name} with rights that no registration gives"),
        is_needed: false,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::connection::fake;

    /// The number of lines, on a host that treats every request as one of this user and gives this
    /// answer to writes.
    async fn findings(user: &'static str, secrets: u16, others: u16) -> usize {
        let (host, _requests) =
            fake::connection("host", move |_, path| match path.rsplit('/').next().unwrap_or_default() {
                "selfsubjectreviews" => {
                    (201, json!({"status": {"userInfo": {"username": user, "groups": [subject::GROUP]}}}))
                }
                "secrets" => (secrets, json!({})),
                _ => (others, json!({})),
            });
        check(&Layout::default(), ("a", "b"), &host, &Printer::default()).await.unwrap()
    }

    /// One more line says that the writes of the other user were not tried.
    #[tokio::test]
    async fn missing_refusal_or_answer_is_a_finding() {
        const A: &str = "system:karmada:agent:a";
        for (user, secrets, others, expected) in [
            // The agent's own Secret must be admitted, and the other writes refused.
            (A, 201, 403, 2),
            (A, 409, 403, 2),
            (A, 403, 403, 1),
            (A, 403, 201, 2),
            (A, 500, 404, 4),
            (subject::GENERATOR, 403, 403, 0),
            (subject::GENERATOR, 403, 201, 1),
            (subject::GENERATOR, 403, 409, 1),
            (subject::GENERATOR, 403, 422, 1),
            ("system:karmada:agent:b", 403, 403, 1),
        ] {
            assert_eq!(findings(user, secrets, others).await, expected + 1, "{user} {secrets} {others}");
        }
    }
}
