//! Builds the objects of an agent on its member, and writes the token into its Secret.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use jiff::Timestamp;
use kubectl_mc_api::manifests::agent::AGENT_SELECTOR;
use kubectl_mc_api::names::{AGENT, AGENT_NAMESPACE};
use kubectl_mc_api::path;
use serde_json::{Value, json};

use super::found::Found;
use super::plan::AgentPlan;
use super::pods::{CONNECTION, identifier};
use crate::cluster::connection::{Connection, ConnectionError};
use crate::cluster::fields::{condition, items};
use crate::error::Failure;

/// The objects to apply before the token is written, and those to apply after it.
pub(crate) fn objects(plan: &AgentPlan, found: &Found) -> Result<(Vec<Value>, Vec<Value>), Failure> {
    let secret = plan.host.secret();
    if found.owner().is_some() {
        return Ok((vec![secret], Vec::new()));
    }
    let is_kept = |object: &Value| object["kind"] == "Namespace" && found.has_foreign_namespace();
    let objects = plan.objects()?.into_iter().filter(|object| !is_kept(object));
    let (mut pods, mut others): (Vec<_>, Vec<_>) = objects.partition(|object| object["kind"] == "Deployment");
    // Running pods keep the tunnel of an earlier connection, so only new ones show whether this one works.
    let connection = identifier(&plan.host);
    for deployment in &mut pods {
        deployment["spec"]["template"]["metadata"]["annotations"][CONNECTION] = connection.clone().into();
    }
    others.push(secret);
    Ok((others, pods))
}

/// The agent's token, if it has one.
pub(crate) fn token(secret: Option<&Value>) -> Option<String> {
    let token = STANDARD.decode(secret?["data"]["token"].as_str()?).ok()?;
    String::from_utf8(token).ok()
}

/// Whether the agent authenticates with a client certificate, which its owner renews.
pub(crate) fn has_certificate(secret: Option<&Value>) -> bool {
    secret.is_some_and(|secret| secret["data"]["tls.crt"].is_string())
}

/// Writes the token into the Secret.
pub(crate) async fn store(member: &Connection, token: &str) -> Result<(), ConnectionError> {
    let data = json!({"data": {"token": STANDARD.encode(token)}});
    member.merge(&path::secret(AGENT_NAMESPACE, AGENT), &data).await.map(drop)
}

/// Makes the pods use the changed Secret. Connected pods read it again when they need it: a kubelet mounts a
/// changed Secret within about a minute, and immediately when the pod changes. Other pods are replaced,
/// because an agent that the host refuses waits for minutes before it dials again. Without the
/// right to replace pods, the agent needs that time.
pub(crate) async fn refresh(member: &Connection) {
    let pods = format!("/api/v1/namespaces/{AGENT_NAMESPACE}/pods");
    let selected = format!("{pods}?labelSelector={}", AGENT_SELECTOR.replace('=', "%3D"));
    let Ok(Some(list)) = member.get(&selected).await else { return };
    let patch = json!({"metadata": {"annotations": {RENEWED: Timestamp::now().to_string()}}});
    for pod in items(&list) {
        let path = format!("{pods}/{}", pod["metadata"]["name"].as_str().unwrap_or_default());
        let _ = if is_ready(pod) {
            member.send(Method::PATCH, &path, Some(("application/merge-patch+json", &patch))).await
        } else {
            member.send(Method::DELETE, &path, None).await
        };
    }
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// Annotation of an agent's pods: the time when the plugin last wrote their token.
const RENEWED: &str = "fleet.kubectl-mc.dev/agent-token-written";

#[cfg(test)]
mod tests {
    use kube::config::Cluster;
    use kubectl_mc_api::names::{KUBECTL_MC, MANAGED_BY};

    use super::*;
    use crate::cli::AgentArgs;

    fn plan() -> AgentPlan {
        let arguments = AgentArgs { agent_image: Some("i".to_owned()), ..AgentArgs::default() };
        AgentPlan::of(&"m1".parse().unwrap(), &arguments, Some(("https://h", &Cluster::default()))).unwrap()
    }

    fn kinds(objects: &[Value]) -> Vec<&str> {
        objects.iter().map(|object| object["kind"].as_str().unwrap()).collect()
    }

    #[test]
    fn pods_start_after_everything_that_they_need() {
        let (before, after) = objects(&plan(), &Found::default()).unwrap();
        assert_eq!((kinds(&before)[0], kinds(&before).last()), ("Namespace", Some(&"Secret")));
        assert_eq!(kinds(&after), ["Deployment"]);
    }

    /// The tunnel of a running pod would hide an address that does not work.
    #[test]
    fn another_connection_replaces_the_pods() {
        let template = |server: &str| {
            let arguments = AgentArgs { agent_image: Some("i".to_owned()), ..AgentArgs::default() };
            let host = Some((server, &Cluster::default()));
            let plan = AgentPlan::of(&"m1".parse().unwrap(), &arguments, host).unwrap();
            objects(&plan, &Found::default()).unwrap().1[0]["spec"]["template"].clone()
        };
        assert_eq!(template("https://h"), template("https://h"));
        assert_ne!(template("https://h"), template("https://other"));
    }

    /// So a join after a changed CA does not replace the pods again.
    #[test]
    fn agent_of_another_tool_gets_only_its_secret() {
        let by = |owner: &str| Found {
            namespace: Some(json!({"metadata": {"labels": {MANAGED_BY: owner}}})),
            deployment: Some(json!({"metadata": {"labels": {MANAGED_BY: owner}}})),
            secret: None,
        };
        let (before, after) = objects(&plan(), &by("Helm")).unwrap();
        assert_eq!((kinds(&before), after.len()), (vec!["Secret"], 0));
        assert_eq!(objects(&plan(), &by(KUBECTL_MC)).unwrap().1.len(), 1);
        let without_image = AgentPlan::of(
            &"m1".parse().unwrap(),
            &AgentArgs::default(),
            Some(("https://h", &Cluster::default())),
        );
        assert!(objects(&without_image.unwrap(), &by("Helm")).is_ok(), "no image is needed");
    }

    #[test]
    fn foreign_namespace_is_not_changed() {
        let found = Found { namespace: Some(json!({"metadata": {}})), ..Found::default() };
        assert_eq!(kinds(&objects(&plan(), &found).unwrap().0)[0], "ServiceAccount");
    }
}
