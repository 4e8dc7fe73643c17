//! Checks one cluster: what the sidecar reports about it, and a request of the caller through every hop.

use std::time::Instant;

use http::Method;
use kubectl_mc_api::{ClusterName, names, path};
use serde_json::{Value, json};

use super::host;
use super::report::Finding;
use super::requests::{post, send};
use super::streams;
use crate::cluster::client::{ClientError, Reply};
use crate::cluster::context::ClusterContext;
use crate::cluster::fields::into_items;
use crate::cluster::hop::Asked;
use crate::cluster::kubernetes_version::{KubernetesVersion, MEMBER_MINIMUM};
use crate::kubectl::exec;
use crate::next_command::quoted;
use crate::server_text::ServerText;

/// The input of the checks of every cluster.
#[derive(Clone)]
pub(super) struct CheckContext {
    /// The host, for hints and requests.
    pub(super) host: ClusterContext,
    pub(super) host_client: kube::Client,
    /// The client for members: that of the host, or of the direct endpoint.
    pub(super) client: kube::Client,
    pub(super) kubectl_minor: Option<u32>,
    pub(super) with_streams: bool,
}

/// Adds each finding as soon as it is known, so that a hanging check does not hide earlier ones.
pub(super) async fn check(context: &CheckContext, name: &ClusterName, findings: &mut Vec<Finding>) {
    let CheckContext { host, host_client, client, kubectl_minor, with_streams } = context;
    if host.hub.is_foreign() {
        // The list of another hub was already read for the selection, and the other checks use the
        // hub's responses.
    } else if let Some(object) = listed(host_client, name).await {
        // All other findings would follow from it.
        if let Some(waiting) = enrollment(&object, host, name) {
            findings.push(waiting);
            return;
        }
        findings.extend(conditions(&object, host, name));
    }
    let begin = Instant::now();
    let root = host.hub.root(name);
    let reply = send(client, Method::GET, &format!("{root}/version"), None).await;
    let took = begin.elapsed().as_millis();
    let version = match read(reply, host, name) {
        Ok(version) => version,
        Err(problem) => {
            findings.push(problem);
            return;
        }
    };
    findings.push(Finding::ok("request", format!("Kubernetes {version} in {took} ms")));
    findings.extend(age(&version, name));
    findings.extend(skew(*kubectl_minor, exec::minor(version.raw()), &version));
    if !host.hub.is_foreign() {
        findings.extend(rights(host_client, name).await);
        findings.extend(member_rights(client, host, name).await);
    }
    if *with_streams {
        let target = streams::Target::member(host, name);
        findings.push(streams::check(&target, client, exec::minor(version.raw())).await);
    }
}

/// The cluster in the sidecar's list, which shows callers the clusters whose proxy they may use.
async fn listed(host: &kube::Client, name: &ClusterName) -> Option<Value> {
    let path = format!("{}?fieldSelector=metadata.name%3D{name}", path::CLUSTERS_PATH);
    let reply = send(host, Method::GET, &path, None).await.ok()?;
    into_items(reply.json()).into_iter().next()
}

/// The leader's conditions, hop by hop.
fn conditions(object: &Value, host: &ClusterContext, name: &ClusterName) -> Vec<Finding> {
    let conditions = object["status"]["conditions"].as_array();
    let conditions: Vec<_> = conditions.into_iter().flatten().collect();
    let by_agent = conditions.iter().any(|condition| condition["type"] == "Connected");
    let of_hub = object["metadata"]["labels"][names::INVENTORY].is_string();
    let fixes = Fixes { name, kubectl: host.kubectl(), kubectl_mc: host.kubectl_mc(), by_agent, of_hub };
    conditions.into_iter().filter_map(|condition| of_condition(condition, &fixes)).collect()
}

/// The one problem of a member whose agent has not enrolled it.
fn enrollment(object: &Value, host: &ClusterContext, name: &ClusterName) -> Option<Finding> {
    let mut credential = object.clone();
    credential["status"]["conditions"].as_array_mut()?.retain(|condition| {
        let reason = condition["reason"].as_str().unwrap_or_default();
        condition["type"] == "CredentialValid" && reason.starts_with("Enrollment")
    });
    conditions(&credential, host, name).pop()
}

/// The commands that repair a member.
struct Fixes<'a> {
    name: &'a ClusterName,
    kubectl: String,
    kubectl_mc: String,
    /// Whether the member has an agent.
    by_agent: bool,
    /// Whether another hub registers the member, and has its credential.
    of_hub: bool,
}

impl Fixes<'_> {
    /// The check for a condition, and the command that repairs it for this reason
    /// (`docs/reference/conditions.md`).
    fn of(&self, condition: &str, reason: &str) -> Option<(&'static str, String)> {
        let Self { name, kubectl, kubectl_mc, by_agent, of_hub } = self;
        let describe = || format!("{kubectl} describe membercluster {name}");
        let renew = || format!("{kubectl_mc} join {name} --renew");
        let join = || {
            let agent = if *by_agent { " --agent" } else { "" };
            format!("{kubectl_mc} join {name} --member-context=NAME{agent}")
        };
        let (check, fix) = match (condition, reason) {
            ("Connected", _) => ("agent", describe()),
            ("Reachable", _) => ("address", describe()),
            ("UniqueName", _) => {
                let unjoin = format!("{kubectl_mc} unjoin {name} --member-context=NAME");
                ("name", format!("keep one of the two: {unjoin}, or unjoin it from the other hub"))
            }
            ("SecretsBound", _) => {
                let object = format!("{kubectl} get clusters.cluster.karmada.io {name} -o yaml");
                ("secrets", format!("the references of the Cluster: {object}"))
            }
            ("CredentialValid", _) if *of_hub => ("credential", describe()),
            // `join --renew` needs tokens that a join has written.
            (
                "CredentialValid",
                "AccountNotFound" | "NoSecret" | "NoCredential" | "InvalidSecret" | "NotRecognized"
                | "ClientCertificate" | "NoExpiry" | "NotRenewable" | "NoManager",
            ) => ("credential", join()),
            ("CredentialValid", reason) if reason.starts_with("Enrollment") => {
                let fix = format!(
                    "an admin of {name} applies the manifest of: {kubectl_mc} join {name} --agent --enroll"
                );
                ("credential", fix)
            }
            ("CredentialValid", _) => ("credential", renew()),
            ("AuthSynced", "ManagerRefused" | "ManagerUnusable" | "Forbidden") if *of_hub => {
                ("impersonation", describe())
            }
            ("AuthSynced", "ManagerRefused") => ("impersonation", renew()),
            ("AuthSynced", "ManagerUnusable" | "Forbidden") => ("impersonation", join()),
            ("AuthSynced", "HostRBACUnreadable") => ("impersonation", describe()),
            ("AuthSynced", _) => ("impersonation", format!("{kubectl_mc} access diff {name}")),
            // Ready is derived from the other conditions.
            _ => return None,
        };
        Some((check, fix))
    }
}

fn of_condition(condition: &Value, fixes: &Fixes<'_>) -> Option<Finding> {
    let text = |field: &str| ServerText::from(condition[field].as_str().unwrap_or_default());
    let (check, fix) = fixes.of(condition["type"].as_str()?, text("reason").raw())?;
    let said = format!("{}: {}", text("reason"), text("message"));
    let is_credential = check == "credential";
    // Requests continue; an administrator must decide which of two registrations or Secrets is
    // right.
    let is_choice = ["name", "secrets"].contains(&check);
    match (text("status").raw(), text("reason").raw()) {
        // Every other reason means that the credential will not be renewed in time.
        ("True", "Accepted" | "NoManager") if is_credential => {
            Some(Finding::ok(check, text("message").to_string()))
        }
        ("True", _) if is_credential => Some(Finding::warning(check, said, fix)),
        // An administrator or another hub maintains the rights of these members.
        ("True", _) | ("Unknown", "NoManager" | "KeptByKarmada" | "KeptByKubeAdmiral") => None,
        ("False", _) if !is_choice => Some(Finding::problem(check, said, Some(fix))),
        _ => Some(Finding::warning(check, said, fix)),
    }
}

/// Reads the member's version, or reports the hop that refuses the request.
fn read(
    reply: Result<Reply, ClientError>,
    host: &ClusterContext,
    name: &ClusterName,
) -> Result<ServerText, Finding> {
    let reply = reply.map_err(|error| {
        let fix = match error {
            // The member chooses the size of its answer.
            ClientError::TooLarge(_) => explain(host, name, "get /version"),
            _ => host::reach(host, &error),
        };
        Finding::problem("request", host::reason(&error), Some(fix))
    })?;
    if let Some(refusal) = reply.refusal_before(&host.hub.dialect, "/version") {
        return Err(Finding::problem(
            "request",
            refusal.to_string(),
            Some(refusal.hint(host, Some(name), &Asked::default())),
        ));
    }
    match reply.json()["gitVersion"].as_str() {
        Some(version) => Ok(version.into()),
        // A response of the member itself means that the request has passed every hop.
        None => Err(Finding::warning(
            "request",
            format!("the member answers GET /version without a version: {}", reply.message()),
            explain(host, name, "get /version"),
        )),
    }
}

/// The command that shows which hop refuses a request.
pub(super) fn explain(host: &ClusterContext, name: &ClusterName, request: &str) -> String {
    if host.hub.is_foreign() {
        return format!("try: {} -C {name} -v=6 auth whoami", host.kubectl_mc());
    }
    format!("{} access explain -C {name} {request}", host.kubectl_mc())
}

/// Checks the member's version. If a member was enrolled, or joined with a printed manifest, no
/// join has checked it.
fn age(version: &ServerText, name: &ClusterName) -> Option<Finding> {
    let parsed = KubernetesVersion::parse(version.raw())?;
    (parsed < MEMBER_MINIMUM).then(|| {
        Finding::warning(
            "version",
            format!(
                "members before Kubernetes {MEMBER_MINIMUM} are neither tested nor supported, and one without \
                 ValidatingAdmissionPolicy does not limit the rights of the sidecar's manager"
            ),
            format!("upgrade {name} to Kubernetes {MEMBER_MINIMUM} or later"),
        )
    })
}

/// Compares versions: kubectl is supported within one minor version of a cluster.
pub(super) fn skew(kubectl: Option<u32>, member: Option<u32>, version: &ServerText) -> Option<Finding> {
    let (kubectl, member) = (kubectl?, member?);
    (kubectl.abs_diff(member) > 1).then(|| {
        Finding::warning(
            "kubectl",
            format!("kubectl 1.{kubectl} and Kubernetes {version} are more than one minor version apart"),
            format!(
                "where a command misbehaves, use a kubectl of 1.{member}: KUBECTL_MC_KUBECTL=/path/to/kubectl"
            ),
        )
    })
}

/// Checks the caller's rights on the host, in addition to the read that succeeded.
async fn rights(host: &kube::Client, name: &ClusterName) -> Option<Finding> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "verb": "create", "group": path::PROXY_GROUP, "resource": path::CLUSTERS, "subresource": "proxy", "name": name,
        }},
    });
    let reply = post(host, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await.ok()?;
    let allowed = reply.json()["status"]["allowed"].as_bool()?;
    (!allowed).then(|| Finding::ok("rights", "you may read, and not exec or change anything"))
}

/// Checks what the member's own RBAC lets the caller read: pods, in all namespaces or in the namespace of the
/// context.
async fn member_rights(client: &kube::Client, host: &ClusterContext, name: &ClusterName) -> Option<Finding> {
    let namespace = host.namespace.as_deref().unwrap_or("default");
    let path = path::self_review_root(name) + "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    for namespace in ["", namespace] {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": namespace}},
        });
        // Other checks cover the case that the member does not answer this review.
        if post(client, &path, &review).await.ok()?.json()["status"]["allowed"].as_bool()? {
            return None;
        }
    }
    Some(Finding::warning(
        "rights",
        format!("RBAC of the member lets you list no pods, not even in namespace {namespace}"),
        explain(host, name, &format!("get pods -n {}", quoted(namespace.as_ref()))),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::report::Level;
    use super::*;

    fn condition(kind: &str, status: &str, reason: &str) -> Option<Finding> {
        let condition = json!({"type": kind, "status": status, "reason": reason, "message": "said"});
        of_condition(&condition, &fixes(&"m1".parse().unwrap(), false))
    }

    fn fixes(name: &ClusterName, by_agent: bool) -> Fixes<'_> {
        let (kubectl, kubectl_mc) = ("kubectl".to_owned(), "kubectl mc".to_owned());
        Fixes { name, kubectl, kubectl_mc, by_agent, of_hub: false }
    }

    #[test]
    fn fix_matches_the_reason() {
        let m1 = "m1".parse().unwrap();
        let fix = |kind, reason, by_agent| fixes(&m1, by_agent).of(kind, reason).unwrap().1;
        let (renew, join) = ("kubectl mc join m1 --renew", "kubectl mc join m1 --member-context=NAME");
        assert_eq!(fix("AuthSynced", "ManagerRefused", false), renew);
        assert_eq!(fix("AuthSynced", "Forbidden", false), join);
        assert_eq!(fix("CredentialValid", "AccountNotFound", false), join);
        assert_eq!(fix("CredentialValid", "AccountNotFound", true), format!("{join} --agent"));
        assert_eq!(
            fix("CredentialValid", "EnrollmentExpired", true),
            "an admin of m1 applies the manifest of: kubectl mc join m1 --agent --enroll"
        );
    }

    #[test]
    fn each_condition_that_is_false_is_a_problem_with_its_command() {
        for (kind, fix) in [
            ("Connected", "kubectl describe membercluster m1"),
            ("Reachable", "kubectl describe membercluster m1"),
            ("CredentialValid", "kubectl mc join m1 --renew"),
            ("AuthSynced", "kubectl mc access diff m1"),
        ] {
            let finding = condition(kind, "False", "Why").unwrap();
            assert_eq!((finding.level, finding.fix), (Level::Problem, Some(fix.into())), "{kind}");
            assert_eq!(finding.message, "Why: said");
            assert_eq!(condition(kind, "Unknown", "Why").unwrap().level, Level::Warning, "{kind}");
        }
        for rights_of_others in ["NoManager", "KeptByKarmada", "KeptByKubeAdmiral"] {
            assert_eq!(condition("AuthSynced", "Unknown", rights_of_others), None);
        }
        assert_eq!(condition("Ready", "False", "Why"), None);
        assert_eq!(condition("Reachable", "True", "Answers"), None);
    }

    #[test]
    fn credential_that_is_not_renewed_is_a_warning() {
        assert_eq!(condition("CredentialValid", "True", "Accepted").unwrap().level, Level::Ok);
        for reason in ["RenewalOverdue", "NoExpiry", "ManagerExpired", "ClientCertificate"] {
            assert_eq!(
                condition("CredentialValid", "True", reason).unwrap().level,
                Level::Warning,
                "{reason}"
            );
        }
    }

    #[test]
    fn member_before_the_tested_versions_is_a_warning() {
        let level = |version: &str| age(&version.into(), &"m1".parse().unwrap()).map(|finding| finding.level);
        assert_eq!(level("v1.29.14-gke.7"), Some(Level::Warning));
        assert_eq!(level("v1.30.0"), None);
        assert_eq!(level("unknown"), None);
    }

    #[test]
    fn kubectl_more_than_one_minor_version_away_is_a_warning() {
        let version = ServerText::from("v1.34.4");
        let level = |kubectl, member| skew(kubectl, member, &version).map(|finding| finding.level);
        assert_eq!(level(Some(35), Some(34)), None);
        assert_eq!(level(Some(33), Some(34)), None);
        assert_eq!(level(Some(36), Some(34)), Some(Level::Warning));
        assert_eq!(level(None, Some(34)), None);
    }
}
