//! Consumers reach a member through its ClusterProfile with their credential for the host, and the
//! profile is removed with its member.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::bed::{bed, host, member};
use harness::caller::Caller;
use harness::own_agent::data_of;
use harness::own_fleet::OwnFleet;
use harness::registration::{register, remove};
use harness::scene;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use testbed::programs;

#[test]
fn consumers_reach_a_member_by_its_profile() -> Result<()> {
    let site = Site::new("profiles")?;
    let _sidecar = site.sidecar()?;
    let profile = site.profile()?;
    let cluster = &profile["status"]["accessProviders"][0]["cluster"];
    let server =
        format!("{}/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/{}/proxy", bed()?.host.server, site.member);
    ensure!(cluster["server"] == server.as_str(), "{profile}");
    ensure!(profile["metadata"]["labels"]["env"] == "e2e", "{profile}");
    ensure!(profile["status"]["version"]["kubernetes"] == "v1.36.3", "{profile}");
    let healthy = &profile["status"]["conditions"][0];
    ensure!(healthy["type"] == "ControlPlaneHealthy" && healthy["status"] == "True", "{profile}");
    for secret in ["token", "eyJ", "PRIVATE"] {
        ensure!(!profile["status"].to_string().contains(secret), "{secret} is in the profile: {profile}");
    }

    let consumer = site.consumer()?;
    let token = consumer.token.as_deref().context("no token")?;
    // Upstream's library.
    let credential = consumer.folder().join("credential");
    let answer = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token},
    });
    std::fs::write(&credential, format!("#!/bin/sh\necho '{answer}'\n"))?;
    std::fs::set_permissions(&credential, std::fs::Permissions::from_mode(0o700))?;
    // The member lets the sidecar impersonate the consumer within seconds.
    eventually("the library's client reaches the member", SOON, || {
        let output = Command::new(programs::profile_consumer())
            .arg(consumer.kubeconfig())
            .arg(&site.fleet.namespace)
            .arg(&credential)
            .output()?;
        let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let said = said.concat();
        let line = said.lines().find(|line| line.starts_with(&format!("{}: ", site.member)));
        ensure!(output.status.success() && line.is_some_and(|line| line.contains("kube-system")), "{said}");
        Ok(Some(()))
    })?;

    // kube-rs.
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "clusters": [{"name": "profile", "cluster": cluster}],
        "users": [{"name": "consumer", "user": {"token": token}}],
        "contexts": [{"name": "profile", "context": {"cluster": "profile", "user": "consumer"}}],
        "current-context": "profile",
    }))?;
    let found = tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let namespaces: kube::Api<Namespace> = kube::Api::all(kube::Client::try_from(config)?);
        anyhow::Ok(namespaces.list(&ListParams::default()).await?)
    })?;
    ensure!(found.items.iter().any(|one| one.metadata.name.as_deref() == Some("kube-system")), "{found:?}");
    Ok(())
}

#[test]
fn profile_is_repaired_and_ends_with_its_member() -> Result<()> {
    let site = Site::new("profiles-end")?;
    let foreign = json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "metadata": {"name": "other"},
        "spec": {"clusterManager": {"name": "another"}},
    });
    site.fleet.host.apply(&site.path("other"), &foreign)?;
    let _sidecar = site.sidecar()?;
    site.profile()?;
    site.fleet.host.delete(&site.path(&site.member))?;
    // Any change of a member makes the leader sync its profile.
    let labels = json!({"metadata": {"labels": {"env": "changed"}}});
    site.fleet.host.merge(&registration(&site.member), &labels)?;
    eventually("the profile is there again", SOON, || {
        let profile = site.fleet.host.get(&site.path(&site.member))?;
        Ok((profile["metadata"]["labels"]["env"] == "changed").then_some(()))
    })?;
    remove(&site.member)?;
    eventually("the profile is gone", SOON, || {
        let answer = site.fleet.host.request("GET", &site.path(&site.member), "", "")?;
        Ok((answer.status() == 404).then_some(()))
    })?;
    ensure!(site.fleet.host.get(&site.path("other"))?["spec"]["clusterManager"]["name"] == "another");
    Ok(())
}

/// A member of the bed's sidecar. The leader in the test's own namespace writes the profile.
struct Site {
    fleet: OwnFleet,
    member: String,
}

impl Site {
    fn new(name: &str) -> Result<Self> {
        let definition = programs::profile_definition()?.display().to_string();
        let kubectl = Tool::admin(&bed()?.host)?;
        kubectl.ok(&["apply", "--server-side", "-f", &definition])?;
        kubectl.ok(&["wait", "--for=condition=Established", "-f", &definition])?;
        let (fleet, member) = (OwnFleet::new(name)?, format!("e2e-{name}"));
        let data = data_of("m1")?;
        register(&member, &data)?;
        fleet.secret(&format!("{member}.member"), &data)?;
        fleet.host.merge(&registration(&member), &json!({"metadata": {"labels": {"env": "e2e"}}}))?;
        Ok(Self { fleet, member })
    }

    fn sidecar(&self) -> Result<harness::own_sidecar::OwnSidecar> {
        let server = format!("--cluster-profile-server={}", bed()?.host.server);
        self.fleet.sidecar(&["--controllers=cluster-profiles", &server])
    }

    fn path(&self, name: &str) -> String {
        format!(
            "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{}/clusterprofiles/{name}",
            self.fleet.namespace
        )
    }

    /// Returns the member's profile, as soon as the member is known to be healthy.
    fn profile(&self) -> Result<Value> {
        eventually("there is a profile of a healthy member", SOON, || {
            let profile = self.fleet.host.get(&self.path(&self.member))?;
            Ok((profile["status"]["conditions"][0]["status"] == "True").then_some(profile))
        })
    }

    /// A service account of the host that may read profiles and namespaces of the member.
    fn consumer(&self) -> Result<Caller> {
        let caller = Caller::service_account("default", &format!("{}-consumer", self.member))?;
        let rule = json!({
            "apiGroups": ["proxy.kubectl-mc.dev"], "resources": ["clusters/proxy"], "verbs": ["get"],
            "resourceNames": ["m1", self.member],
        });
        let attributes = json!({
            "group": "proxy.kubectl-mc.dev", "resource": "clusters", "subresource": "proxy", "verb": "get",
            "name": self.member,
        });
        scene::grant(&host()?, &format!("{}-enter", self.member), &caller, &rule, &attributes)?;
        let rule = json!({
            "apiGroups": ["multicluster.x-k8s.io"], "resources": ["clusterprofiles"], "verbs": ["get", "list"],
        });
        let attributes =
            json!({"group": "multicluster.x-k8s.io", "resource": "clusterprofiles", "verb": "list"});
        scene::grant(&host()?, &format!("{}-read", self.member), &caller, &rule, &attributes)?;
        let rule = json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]});
        let attributes = json!({"resource": "namespaces", "verb": "list"});
        scene::grant(
            &Api::admin(member("m1")?)?,
            &format!("{}-list", self.member),
            &caller,
            &rule,
            &attributes,
        )?;
        Ok(caller)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = remove(&self.member);
    }
}

fn registration(member: &str) -> String {
    format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{member}")
}
