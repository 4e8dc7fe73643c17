//! `kubectl mc join --agent` makes objects on both sides, refuses wrong flags, and leaves nothing behind. No
//! pod of the agent runs here; `agent_pods` tests those.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use harness::api::Api;
use harness::bed::{SYSTEM, bed, host};
use harness::both_sides::{alone, both};
use harness::caller::Caller;
use harness::spare_host::listing;
use harness::tool::{Output, Tool};
use serde_json::{Value, json};
use testbed::Cluster;

use crate::plugin;

#[test]
fn agent_that_does_not_connect_is_reported_and_keeps_token() -> Result<()> {
    let alone = alone()?;
    let before = Objects::of(alone.cluster, NAME)?;
    let both = both(alone.cluster, |_| {})?;
    let unconnected = |flags: &[&str]| -> Result<String> {
        let ran = join(&both, &[&["--agent", IMAGE, "--timeout=1s"], flags].concat())?;
        ran.failure(&[
            &format!("the agent of {NAME} is not connected: "),
            "run the same command again to continue",
        ])
    };
    let said = unconnected(&[])?;
    ensure!(said.contains("kubectl --context=member -n kubectl-mc-agent"), "{said}");

    // The host has registered the cluster and its agent, without a credential for the cluster.
    let registered = host()?.get(&format!("/api/v1/namespaces/{SYSTEM}/secrets/{NAME}.member"))?;
    ensure!(text(&registered, "via")? == "agent", "{registered}");
    ensure!(text(&registered, "server")? == "https://kubernetes.default.svc", "{registered}");
    let member = Api::admin(alone.cluster)?;
    let roots = member.get("/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt")?;
    ensure!(roots["data"]["ca.crt"] == text(&registered, "ca.crt")?.as_str(), "another authority");
    ensure!(
        registered["data"]["token"].is_null(),
        "the host has a token of a member that it has not reached"
    );

    // The agent has a token of its own account, and no data of the caller's kubeconfig.
    let secret = || member.get("/api/v1/namespaces/kubectl-mc-agent/secrets/mc-agent");
    let connection = secret()?;
    ensure!(text(&connection, "server")? == bed()?.host.server, "{connection}");
    let keys: Vec<_> = connection["data"].as_object().context("no data")?.keys().collect();
    ensure!(keys == ["ca.crt", "server", "token"], "{keys:?}");
    ensure!(
        owner(&text(&connection, "token")?)? == format!("system:serviceaccount:kubectl-mc-agents:{NAME}")
    );
    let deployment = member.get("/apis/apps/v1/namespaces/kubectl-mc-agent/deployments/mc-agent")?;
    ensure!(deployment["spec"]["replicas"] == 2, "{deployment}");

    // A second join keeps the token, unless its lifetime changes.
    unconnected(&[])?;
    ensure!(text(&secret()?, "token")? == text(&connection, "token")?, "a token that serves was replaced");
    unconnected(&["--agent-token=forever"])?;
    let forever = text(&secret()?, "token")?;
    ensure!(forever != text(&connection, "token")?, "the token is the same");
    let of_host = host()?.get(&format!("/api/v1/namespaces/kubectl-mc-agents/secrets/{NAME}"))?;
    ensure!(text(&of_host, "token")? == forever, "it is not that of the Secret");
    unconnected(&[])?;
    ensure!(text(&secret()?, "token")? == forever, "a token that lives forever was replaced");
    unconnected(&["--agent-token=1h"])?;
    ensure!(text(&secret()?, "token")? != forever, "the token is the same");
    let left =
        host()?.request("GET", &format!("/api/v1/namespaces/kubectl-mc-agents/secrets/{NAME}"), "", "")?;
    ensure!(left.status() == 404, "a token that lives forever is left");

    // Another address of the host changes only the address.
    unconnected(&["--agent-server=https://192.0.2.1:6443", "--agent-proxy=http://192.0.2.2:3128"])?;
    ensure!(text(&secret()?, "server")? == "https://192.0.2.1:6443");
    ensure!(text(&secret()?, "proxy-url")? == "http://192.0.2.2:3128");

    unjoin(&both)?;
    Objects::of(alone.cluster, NAME)?.same_as(&before)
}

#[test]
fn agent_is_removed_only_when_an_address_is_given() -> Result<()> {
    let alone = alone()?;
    let before = Objects::of(alone.cluster, NAME)?;
    let both = both(alone.cluster, |_| {})?;
    join(&both, &["--agent", IMAGE, "--timeout=1s"])?.failure(&["is not connected"])?;
    let said = join(&both, &[])?.failure(&["is joined through an agent", "--agent", "--server=URL"])?;
    ensure!(!said.contains("registering"), "something was written: {said}");

    let direct = format!("--server={}", alone.cluster.server);
    let said = join(&both, &[&direct])?.success()?;
    ensure!(said.contains(&format!("host: serviceaccount/{NAME} deleted")), "{said}");
    ensure!(said.contains("member: namespace/kubectl-mc-agent deleted"), "{said}");
    let registered = host()?.get(&format!("/api/v1/namespaces/{SYSTEM}/secrets/{NAME}.member"))?;
    ensure!(registered["data"]["via"].is_null(), "{registered}");
    plugin(&both)?.ok(&["-C", NAME, "get", "namespaces"])?;
    plugin(&both)?
        .run(&["join", NAME, "--agent", "--renew", "--member-context=member"])?
        .failure(&[&format!("{NAME} has no agent"), "omit --agent"])?;
    unjoin(&both)?;
    Objects::of(alone.cluster, NAME)?.same_as(&before)
}

#[test]
fn dry_run_of_an_agent_checks_both_sides_and_writes_nothing() -> Result<()> {
    let alone = alone()?;
    let before = Objects::of(alone.cluster, NAME)?;
    let said = join(&both(alone.cluster, |_| {})?, &["--agent", IMAGE, "--dry-run"])?.success()?;
    for line in [
        &format!("host: serviceaccount/{NAME} created (server dry run)"),
        &format!("host: secret/{NAME}.member created (server dry run)"),
        "member: namespace/kubectl-mc-agent created (server dry run)",
        "member: secret/mc-agent created (server dry run)",
        "member: deployment.apps/mc-agent created (server dry run)",
    ] {
        ensure!(said.contains(line), "{line:?} is not in {said}");
    }
    Objects::of(alone.cluster, NAME)?.same_as(&before)
}

#[test]
fn agent_of_another_tool_gets_only_its_secret() -> Result<()> {
    let alone = alone()?;
    let member = Api::admin(alone.cluster)?;
    member.apply(
        "/api/v1/namespaces/kubectl-mc-agent",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubectl-mc-agent"}}),
    )?;
    let path = "/apis/apps/v1/namespaces/kubectl-mc-agent/deployments/mc-agent";
    let theirs = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "mc-agent", "labels": {"app.kubernetes.io/managed-by": "Helm"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
        },
    });
    let before = member.apply(path, &theirs)?["metadata"]["generation"].clone();
    let both = both(alone.cluster, |_| {})?;
    // No image is needed.
    let ran = join(&both, &["--agent", "--timeout=1s"])?;
    ran.failure(&["Helm manages the agent on the member: only its Secret is written", "is not connected"])?;
    let of_namespace = ["-n", "kubectl-mc-agent", "get", "deployments,secrets,networkpolicies", "-o", "name"];
    let made = || Tool::admin(alone.cluster)?.ok(&of_namespace);
    ensure!(made()? == "deployment.apps/mc-agent\nsecret/mc-agent\n", "{}", made()?);
    ensure!(member.get(path)?["metadata"]["generation"] == before, "the Deployment was changed");

    let unjoined = plugin(&both)?.run(&["unjoin", NAME, "--member-context=member", "--yes"])?;
    ensure!(unjoined.code == 0 && unjoined.stderr.contains("the agent of Helm"), "{unjoined:?}");
    ensure!(made()? == "deployment.apps/mc-agent\n", "{}", made()?);
    Ok(())
}

#[test]
fn host_address_that_members_cannot_use_is_refused() -> Result<()> {
    let alone = alone()?;
    let both = both(alone.cluster, |_| {})?;
    let relay = harness::relay::Relay::at([127, 0, 0, 1].into(), &bed()?.host.server)?;
    let local = both.edit(|config| {
        let address = bed().map(|bed| bed.host.server.clone()).unwrap_or_default();
        let (ip, _) = address.trim_start_matches("https://").rsplit_once(':').unwrap_or_default();
        let cluster = &mut config["clusters"][0]["cluster"];
        cluster["server"] = format!("https://{}", relay.address).into();
        cluster["tls-server-name"] = ip.into();
    })?;
    let said =
        join(&local, &["--agent", IMAGE])?.failure(&["is a loopback address: the agent cannot reach it"])?;
    ensure!(said.contains(&format!("--agent-server={}", bed()?.host.server)), "{said}");
    Ok(())
}

fn join(caller: &Caller, flags: &[&str]) -> Result<Output> {
    plugin(caller)?.run(&[&["join", NAME, "--member-context=member"], flags].concat())
}

fn unjoin(caller: &Caller) -> Result<()> {
    let said = plugin(caller)?.ok(&["unjoin", NAME, "--member-context=member", "--yes"])?;
    ensure!(said.contains(&format!("host: membercluster.fleet.kubectl-mc.dev/{NAME} deleted")), "{said}");
    Ok(())
}

/// A value of a Secret.
pub(crate) fn text(secret: &Value, key: &str) -> Result<String> {
    let value = secret["data"][key].as_str().with_context(|| format!("no {key} in {secret}"))?;
    Ok(String::from_utf8(base64::engine::general_purpose::STANDARD.decode(value)?)?)
}

/// The owner of the token, according to the host.
fn owner(token: &str) -> Result<String> {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
    });
    let answer = host()?.create("/apis/authentication.k8s.io/v1/tokenreviews", &review)?;
    Ok(answer["status"]["user"]["username"].as_str().unwrap_or_default().to_owned())
}

/// All objects of the member, and those of the host that are named after the cluster.
pub(crate) struct Objects(BTreeSet<String>);

impl Objects {
    pub(crate) fn of(member: &Cluster, cluster: &str) -> Result<Self> {
        let mut objects: BTreeSet<_> =
            listing(member)?.into_iter().map(|one| format!("member: {one}")).collect();
        // Clusters of other tests have longer names with the same prefix.
        let is_its = |one: &String| {
            let name = one.rsplit(' ').next().unwrap_or_default();
            name.strip_prefix(cluster).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let on_host = listing(&bed()?.host)?.into_iter().filter(is_its);
        objects.extend(on_host.map(|one| format!("host: {one}")));
        Ok(Self(objects))
    }

    pub(crate) fn same_as(&self, before: &Self) -> Result<()> {
        let left: Vec<_> = self.0.symmetric_difference(&before.0).collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    }
}

const NAME: &str = "e2e-agent";
const IMAGE: &str = "--agent-image=testbed.local/mc-sidecar:1";
