//! `kubectl mc join --agent --enroll`: one manifest registers a cluster that the joiner has no access to. The
//! agent runs as a process with the token of its account, so no node is needed.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::bed::{SYSTEM, host};
use harness::both_sides::{Alone, alone, both};
use harness::caller::Caller;
use harness::own_agent::{Difference, OwnAgent, until};
use harness::tool::{Output, Tool};
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::Cluster;

use super::agent_join::{Objects, text};
use crate::plugin;

#[test]
fn manifest_enrolls_a_member_without_its_context() -> Result<()> {
    let alone = alone()?;
    let before = Objects::of(alone.cluster, NAME)?;
    let scene = Scene::new(alone)?;
    let manifest = scene.enroll(&["--labels=env=edge"])?;

    // Until the manifest is applied, the condition and the error say that the agent has to enroll.
    let said = until_reason("EnrollmentOpen")?;
    ensure!(said.contains("waiting for the agent to enroll the member until 20"), "{said}");
    let used = scene.host_only()?.run(&["-C", NAME, "get", "namespaces"])?;
    used.failure(&["gets its credential when the member's agent enrolls", "--agent --enroll"])?;

    scene.apply(&manifest)?;
    let agent = scene.agent(Some("https://192.0.2.1"))?;
    ensure!(scene.may_request_tokens()?, "the manifest does not let the agent enroll");
    drop(agent);
    let _agent = scene.agent(None)?;
    until(NAME, "Ready", "True")?;
    let plugin = scene.host_only()?;
    ensure!(plugin.ok(&["-C", NAME, "get", "namespaces"])?.contains("kubectl-mc-agent"));
    ensure!(plugin.ok(&["clusters", "-l", "env=edge"])?.contains(NAME));

    // The host has the same data as after a join.
    let member = Api::admin(scene.alone.cluster)?;
    let roots = member.get("/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt")?;
    for (end, account) in [("member", "impersonator"), ("manager", "manager")] {
        let secret = secret(end)?;
        ensure!(
            text(&secret, "via")? == "agent"
                && text(&secret, "ca.crt")? == roots["data"]["ca.crt"].as_str().unwrap_or_default()
        );
        let user = format!("system:serviceaccount:kubectl-mc-system:kubectl-mc-{account}");
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let owner = Api::bearer(scene.alone.cluster, &text(&secret, "token")?)?;
        let owner = owner.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review)?;
        ensure!(owner["status"]["userInfo"]["username"] == user.as_str(), "{owner}");
    }
    let uid = member.get("/api/v1/namespaces/kube-system")?["metadata"]["uid"].clone();
    eventually("the enrollment is closed", SOON, || {
        for end in ["member", "manager"] {
            let annotations = secret(end)?["metadata"]["annotations"].clone();
            ensure!(annotations[UNTIL].is_null(), "{annotations}");
        }
        ensure!(registered()?["status"]["uid"] == uid, "no uid");
        Ok(Some(()))
    })?;

    // The agent has deleted its own right, and a second request gives nothing.
    eventually("the agent has no right to enroll", SOON, || {
        ensure!(!scene.may_request_tokens()?, "it may request tokens");
        Ok(Some(()))
    })?;
    scene.ensure_no_bindings()?;
    // The manager's tokens are valid only for this cluster's API.
    let manager = Api::bearer(scene.alone.cluster, &text(&secret("manager")?, "token")?)?;
    let request = |audiences: Value| {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": audiences, "expirationSeconds": 3600},
        });
        let path = "/api/v1/namespaces/kubectl-mc-system/serviceaccounts/kubectl-mc-impersonator/token";
        manager.request("POST", path, "application/json", &request.to_string())
    };
    ensure!(request(json!([]))?.status() == 201, "the manager cannot renew");
    let refused = request(json!(["vault"]))?;
    ensure!(
        refused.status() == 403 && refused.text().contains("for the API of this cluster only"),
        "{refused:?}"
    );

    let said = scene.run(&[])?.failure(&["m1-enrolls is joined already"])?;
    ensure!(!said.contains("configured"), "{said}");
    reopen(json!({"token": null}))?;
    let said = until_reason("EnrollmentFailed")?;
    ensure!(said.contains("may not enroll the member any more"), "{said}");
    ensure!(secret("member")?["data"]["token"].is_null(), "a token was written");

    let both = both(scene.alone.cluster, |_| {})?;
    plugin_of(&both)?.ok(&["unjoin", NAME, "--member-context=member", "--yes"])?;
    Objects::of(scene.alone.cluster, NAME)?.same_as(&before)
}

#[test]
fn closed_enrollment_accepts_nothing() -> Result<()> {
    let scene = Scene::new(alone()?)?;
    let manifest = scene.enroll(&[])?;
    let ensure_nothing = || -> Result<()> {
        for end in ["member", "manager"] {
            let secret = secret(end)?;
            ensure!(secret["data"]["token"].is_null() && secret["data"]["ca.crt"].is_null(), "{secret}");
        }
        ensure!(scene.may_request_tokens()?, "the agent was asked");
        Ok(())
    };
    annotate(&at(-60)?)?;
    until_reason("EnrollmentExpired")?;
    scene.apply(&manifest)?;
    let _agent = scene.agent(None)?;
    until(NAME, "Connected", "True")?;
    ensure_nothing()?;
    annotate(&at(2 * 3600)?)?;
    eventually("an end that is too far away is refused", SOON, || {
        let said = condition()?.1;
        ensure!(said.contains("is no time within the next hour"), "{said}");
        Ok(Some(()))
    })?;
    ensure_nothing()?;

    // A member with a credential keeps it, even with the annotation.
    let own = json!({"data": {"token": "b3du"}, "metadata": {"annotations": {UNTIL: at(600)?}}});
    host()?.merge(&secret_path("member"), &own)?;
    until_reason("InvalidSecret")?;
    ensure!(text(&secret("member")?, "token")? == "own", "a credential was replaced");
    ensure!(secret("manager")?["data"]["token"].is_null() && scene.may_request_tokens()?);

    // Nothing else was missing, so the member enrolls as soon as the enrollment is open.
    scene.enroll(&[]).err().context("a member with a credential was enrolled")?;
    reopen(json!({"token": null}))?;
    until(NAME, "Ready", "True")?;
    scene.unjoin()
}

#[test]
fn expired_enrollment_removes_the_agents_right() -> Result<()> {
    let scene = Scene::new(alone()?)?;
    let manifest = scene.enroll(&["--enroll-for=20s"])?;
    scene.apply(&manifest)?;
    // The agent cannot reach the host.
    let agent = scene.agent(Some("https://127.0.0.1:1"))?;
    ensure!(scene.may_request_tokens()?, "the right ended before its time");
    agent.until_logged("deleted the right to enroll")?;
    scene.ensure_no_bindings()?;
    let said = until_reason("EnrollmentExpired")?;
    ensure!(said.contains(&format!("kubectl mc join {NAME} --agent --enroll")), "{said}");

    // A second run opens the enrollment again, with another token.
    let again = scene.enroll(&[])?;
    ensure!(again != manifest, "the manifest is the same");
    until_reason("EnrollmentOpen")?;
    scene.unjoin()
}

/// A cluster that enrolls, and the administrator of the host.
struct Scene {
    alone: Alone,
    administrator: Caller,
    folder: TempDir,
}

impl Scene {
    fn new(alone: Alone) -> Result<Self> {
        let administrator = Caller::certificate("e2e-enroll-admin", &["system:masters"])?;
        let folder = tempfile::tempdir()?;
        let target = alone.cluster.server.trim_start_matches("https://");
        std::fs::write(folder.path().join("values.yaml"), format!("target: '{target}'\n"))?;
        Ok(Self { alone, administrator, folder })
    }

    /// The plugin with a kubeconfig of only the host.
    fn host_only(&self) -> Result<Tool> {
        plugin(&self.administrator)
    }

    fn run(&self, flags: &[&str]) -> Result<Output> {
        let values = format!("--agent-values={}", self.folder.path().join("values.yaml").display());
        let join = ["join", NAME, "--agent", "--enroll", "--agent-image=i", &values];
        self.host_only()?.run(&[&join, flags].concat())
    }

    /// The manifest.
    fn enroll(&self, flags: &[&str]) -> Result<Vec<u8>> {
        let ran = self.run(flags)?;
        ensure!(ran.code == 0, "{ran:?}");
        ensure!(
            ran.stderr.contains("hand it over as a credential")
                && ran.stderr.contains("its agent can enroll it until 20"),
            "{ran:?}"
        );
        Ok(ran.stdout)
    }

    fn apply(&self, manifest: &[u8]) -> Result<()> {
        let ran = Tool::admin(self.alone.cluster)?.run_with_input(&["apply", "-f", "-"], manifest)?;
        ensure!(ran.code == 0, "{ran:?}");
        Ok(())
    }

    /// Runs the agent of the manifest as its pod would, or with another address of the host.
    fn agent(&self, server: Option<&str>) -> Result<OwnAgent> {
        let member = Api::admin(self.alone.cluster)?;
        let secret = member.get("/api/v1/namespaces/kubectl-mc-agent/secrets/mc-agent")?;
        let deployment = member.get("/apis/apps/v1/namespaces/kubectl-mc-agent/deployments/mc-agent")?;
        let args =
            deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().context("no args")?;
        let kubeconfig = self.folder.path().join("kubeconfig");
        self.write_kubeconfig(&kubeconfig)?;
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let own = args.iter().filter_map(Value::as_str).filter(|arg| arg.starts_with("--enroll-"));
        let flags: Vec<_> = own.chain([kubeconfig.as_str()]).collect();
        let (token, ca) = (text(&secret, "token")?, text(&secret, "ca.crt")?);
        let server = server.map_or_else(|| text(&secret, "server"), |server| Ok(server.to_owned()))?;
        let keys = [("token", token.as_str())];
        let difference = Difference {
            server: Some(server),
            ca: Some(ca),
            keys: &keys,
            flags: &flags,
            ..Difference::default()
        };
        OwnAgent::start(NAME, self.alone.cluster, &difference)
    }

    fn write_kubeconfig(&self, file: &Path) -> Result<()> {
        let Cluster { server, ca_certificate, .. } = self.alone.cluster;
        let cluster = json!({"server": server, "certificate-authority": ca_certificate});
        Ok(std::fs::write(file, of_account(&cluster, &self.account_token()?).to_string())?)
    }

    /// A token of the agent's account on the member.
    fn account_token(&self) -> Result<String> {
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let path = "/api/v1/namespaces/kubectl-mc-agent/serviceaccounts/mc-agent/token";
        let made = Api::admin(self.alone.cluster)?.create(path, &request)?;
        Ok(made["status"]["token"].as_str().context("no token")?.to_owned())
    }

    /// Whether the agent's account may request tokens of the sidecar's accounts.
    fn may_request_tokens(&self) -> Result<bool> {
        let agent = Api::bearer(self.alone.cluster, &self.account_token()?)?;
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "verb": "create", "resource": "serviceaccounts", "subresource": "token",
                "namespace": "kubectl-mc-system", "name": "kubectl-mc-impersonator",
            }},
        });
        let answer = agent.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review)?;
        Ok(answer["status"]["allowed"] == true)
    }

    fn ensure_no_bindings(&self) -> Result<()> {
        let bindings = ["get", "clusterrolebindings,rolebindings", "-A", "-o", "name"];
        let left = Tool::admin(self.alone.cluster)?.ok(&bindings)?;
        ensure!(!left.contains("mc-agent-enrollment"), "{left}");
        Ok(())
    }

    fn unjoin(&self) -> Result<()> {
        self.host_only()?.ok(&["unjoin", NAME, "--force", "--yes"]).map(drop)
    }
}

fn plugin_of(caller: &Caller) -> Result<Tool> {
    plugin(caller)
}

/// A kubeconfig of an account by its token.
pub(super) fn of_account(cluster: &Value, token: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    })
}

/// The time this many seconds from now, in the format of the annotation.
pub(super) fn at(seconds: i64) -> Result<String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    Ok(jiff::Timestamp::from_second(i64::try_from(now)? + seconds)?.to_string())
}

fn annotate(until: &str) -> Result<()> {
    for end in ["manager", "member"] {
        host()?.merge(&secret_path(end), &json!({"metadata": {"annotations": {UNTIL: until}}}))?;
    }
    Ok(())
}

/// Opens the enrollment again by hand, and changes the data of both Secrets.
fn reopen(data: Value) -> Result<()> {
    for end in ["manager", "member"] {
        let change = json!({"data": data, "metadata": {"annotations": {UNTIL: at(300)?}}});
        host()?.merge(&secret_path(end), &change)?;
    }
    Ok(())
}

fn secret_path(end: &str) -> String {
    format!("/api/v1/namespaces/{SYSTEM}/secrets/{NAME}.{end}")
}

fn secret(end: &str) -> Result<Value> {
    host()?.get(&secret_path(end))
}

fn registered() -> Result<Value> {
    host()?.get(&format!("{MEMBER_CLUSTERS}/{NAME}"))
}

/// Waits until condition `CredentialValid` has this reason, and returns its message.
fn until_reason(reason: &str) -> Result<String> {
    eventually(&format!("CredentialValid is {reason}"), SOON, || {
        let (why, said) = condition()?;
        ensure!(why == reason, "{why}: {said}");
        Ok(Some(said))
    })
}

fn condition() -> Result<(String, String)> {
    condition_of(NAME)
}

/// Reason and message of condition `CredentialValid`.
pub(super) fn condition_of(name: &str) -> Result<(String, String)> {
    let cluster = host()?.get(&format!("{MEMBER_CLUSTERS}/{name}"))?;
    let all = cluster["status"]["conditions"].as_array().context("no conditions yet")?;
    let found = all.iter().find(|condition| condition["type"] == "CredentialValid").context("not yet")?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Ok((text("reason"), text("message")))
}

const NAME: &str = "m1-enrolls";
pub(super) const UNTIL: &str = "fleet.kubectl-mc.dev/enrollment-until";
pub(super) const MEMBER_CLUSTERS: &str = "/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters";
