//! A fleet works from its installation to its removal, on its own clusters: members join, are used,
//! survive changes and outages, and leave nothing behind.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use harness::api::Api;
use harness::audit::AuditLog;
use harness::bed::{SYSTEM, spare};
use harness::caller::Caller;
use harness::http1::{Endpoint, member_path};
use harness::leftovers::Clean;
use harness::managed::lets_be_user;
use harness::own_fleet::OwnFleet;
use harness::spare_host::{SIDECAR, SpareHost, listing};
use harness::tool::{Output, Tool};
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};
use testbed::Cluster;

use crate::identity::quiet::unified_auth::{FIVE_SECONDS, RBAC, named, rule, within};

mod weekend;

#[test]
fn fleet_works_from_installation_to_removal() -> Result<()> {
    let story = Story::begin()?;
    let before = story.everything()?;
    story.install()?;
    let tokens = story.join()?;
    story.grant_and_use()?;
    story.see_every_token_renewed(&tokens)?;
    story.follow_the_hosts_rbac()?;
    story.lose_a_member_and_find_it_again()?;
    story.lose_the_leader()?;
    story.take_away()?;
    story.is_as(&before)
}

/// A host, two clusters that become its members, and their users.
struct Story {
    // This is dropped before the host, whose lock covers all three.
    members: [Member; 2],
    host: SpareHost,
    /// The MemberClusters on the host.
    fleet: OwnFleet,
    /// The administrator of all three.
    admin: Tool,
    jane: Tool,
    jane_herself: Caller,
}

struct Member {
    name: &'static str,
    cluster: &'static Cluster,
    api: Api,
    _clean: Clean,
}

impl Story {
    fn begin() -> Result<Self> {
        let host = SpareHost::take()?;
        let members = [Member::prepared("east", "s2")?, Member::prepared("west", "s3")?];
        let program = Path::new(env!("CARGO_BIN_EXE_kubectl-mc"));
        let jane = Caller::certificate_at(host.cluster, "jane", &[])?;
        Ok(Self {
            fleet: OwnFleet { namespace: SYSTEM.to_owned(), host: Api::admin(host.cluster)? },
            admin: Tool::plugin_at(program, &[host.cluster, members[0].cluster, members[1].cluster])?,
            jane: Tool::plugin(program, &jane)?,
            jane_herself: jane,
            members,
            host,
        })
    }

    /// Every object of the three clusters.
    fn everything(&self) -> Result<Vec<(&str, BTreeSet<String>)>> {
        let clusters = [self.host.cluster, self.members[0].cluster, self.members[1].cluster];
        clusters.into_iter().map(|cluster| Ok((cluster.name.as_str(), listing(cluster)?))).collect()
    }

    /// Installs with short intervals for the controllers: tokens of ten minutes are renewed after
    /// some seconds.
    fn install(&self) -> Result<()> {
        self.admin.ok(&[
            "install",
            "--image",
            SIDECAR,
            "--image-pull-policy=Never",
            "--sidecar-flag=--member-monitor-period=1s",
            "--sidecar-flag=--token-renewal-fraction=0.02",
        ])?;
        Ok(())
    }

    /// Joins the members, and returns their Secrets with the first tokens.
    fn join(&self) -> Result<Vec<(String, String)>> {
        let mut tokens = Vec::new();
        for Member { name, cluster, .. } in &self.members {
            let context = format!("--member-context={}", cluster.name);
            self.admin.ok(&["join", name, &context, "--token-duration=10m"])?;
            for secret in [format!("{name}.member"), format!("{name}.manager")] {
                tokens.push((secret.clone(), self.fleet.token(&secret)?));
            }
        }
        let names = self.admin.ok(&["clusters", "-o", "name"])?;
        ensure!(names.contains("east") && names.contains("west"), "{names}");
        Ok(tokens)
    }

    fn grant_and_use(&self) -> Result<()> {
        let grant = ["access", "grant", "view", "--user=jane", "-n", NAMESPACE, "-C", "east,west"];
        self.admin.ok(&grant)?;
        for member in &self.members {
            let pods = eventually("jane reads", SOON, || self.reads(member)?.success().map(Some))?;
            ensure!(pods == "pod/web\n", "{}: {pods}", member.name);
        }
        let both = self.reads_both()?.success()?;
        ensure!(both == "east | pod/web\nwest | pod/web\n", "{both}");
        Ok(())
    }

    /// Waits until all four tokens are renewed and the members see the new ones.
    fn see_every_token_renewed(&self, tokens: &[(String, String)]) -> Result<()> {
        for (secret, before) in tokens {
            let renewed = || Ok((self.fleet.token(secret)? != *before).then_some(()));
            eventually(&format!("the token in {secret} is another one"), SOON, renewed)?;
        }
        for member in &self.members {
            within("the member is shown the new token", FIVE_SECONDS, || {
                let token = token_id(&self.fleet.token(&format!("{}.member", member.name))?)?;
                let log = AuditLog::from_now(member.cluster)?;
                self.reads(member)?.success()?;
                let seen = log.request(PODS)?;
                Ok(seen["user"]["extra"]["authentication.kubernetes.io/credential-id"] == json!([token]))
            })?;
        }
        Ok(())
    }

    fn follow_the_hosts_rbac(&self) -> Result<()> {
        let host = &self.fleet.host;
        let path = |kind: &str| format!("{RBAC}/{kind}/story");
        let mut role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "story"},
        });
        role["rules"] = json!([rule(&["clusters/proxy"], &["get"], &["east", "west"])]);
        host.apply(&path("clusterroles"), &role)?;
        host.apply(
            &path("clusterrolebindings"),
            &json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": "story"}, "subjects": [named("User", "zoe")],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "story"},
            }),
        )?;
        within("both members let zoe in", FIVE_SECONDS, || self.all_let_be("zoe", true))?;
        host.delete(&path("clusterrolebindings"))?;
        within("no member lets zoe in", FIVE_SECONDS, || self.all_let_be("zoe", false))?;
        host.delete(&path("clusterroles")).map(drop)
    }

    fn lose_a_member_and_find_it_again(&self) -> Result<()> {
        let east = &self.members[0];
        east.cluster.stop_apiserver()?;
        let seen = self.see_east_is_down();
        east.cluster.restart_apiserver()?;
        seen?;
        self.fleet.until(east.name, "Ready", "True", "Ready")?;
        eventually("jane reads again", SOON, || self.reads(east)?.success().map(Some)).map(drop)
    }

    fn see_east_is_down(&self) -> Result<()> {
        let [east, west] = &self.members;
        self.fleet.until(east.name, "Ready", "False", "ConnectionRefused")?;
        self.reads(east)?.failure(&["member east is unreachable"])?;
        self.reads(west)?.success()?;
        let both = self.reads_both()?;
        ensure!(both.text() == "west | pod/web\n", "{both:?}");
        both.failure(&["1 of 2 clusters failed: 1 unreachable (east)"]).map(drop)
    }

    /// Deletes the leader's pod: another replica leads before the pod is gone, and every request in
    /// the meantime is answered.
    fn lose_the_leader(&self) -> Result<()> {
        let leader = self.leader()?;
        let endpoint = Endpoint::cluster(self.host.cluster, self.jane_herself.certificate.as_deref())?;
        let path = member_path("west", PODS);
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let pod = format!("/api/v1/namespaces/{SYSTEM}/pods/{leader}");
        self.fleet.host.delete(&pod)?;
        let (began, mut answered) = (Instant::now(), 0);
        while self.fleet.host.request("GET", &pod, "", "")?.status() != 404 {
            let answer = endpoint.exchange(request.as_bytes())?;
            let after = began.elapsed();
            ensure!(answer.status() == 200, "{} after {after:?}: {}", answer.status(), answer.text());
            answered += 1;
            ensure!(after < 2 * SOON, "{leader} does not end");
        }
        ensure!(answered > 0 && self.leader()? != leader, "nobody leads in its place");
        Ok(())
    }

    fn take_away(&self) -> Result<()> {
        self.admin.run(&["uninstall"])?.failure(&["east", "west", "--yes"])?;
        for Member { name, cluster, .. } in &self.members {
            let context = format!("--member-context={}", cluster.name);
            self.admin.ok(&["unjoin", name, &context, "--yes"])?;
        }
        self.admin.ok(&["uninstall"]).map(drop)
    }

    fn is_as(&self, before: &[(&str, BTreeSet<String>)]) -> Result<()> {
        for ((cluster, after), (_, before)) in self.everything()?.iter().zip(before) {
            let left = after.difference(before).collect::<Vec<_>>();
            let lost = before.difference(after).collect::<Vec<_>>();
            ensure!(left.is_empty() && lost.is_empty(), "{cluster}: left: {left:?}; lost: {lost:?}");
        }
        Ok(())
    }

    /// Lists pods on one member as jane.
    fn reads(&self, member: &Member) -> Result<Output> {
        self.jane.run(&["--cluster", member.name, "get", "pods", "-n", NAMESPACE, "-o", "name"])
    }

    fn reads_both(&self) -> Result<Output> {
        self.jane.run(&["--cluster=east,west", "get", "pods", "-n", NAMESPACE, "-o", "name"])
    }

    fn all_let_be(&self, user: &str, wanted: bool) -> Result<bool> {
        for member in &self.members {
            if lets_be_user(&member.api, user)? != wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The pod that holds the Lease: the first part of the holder's identity is its name.
    fn leader(&self) -> Result<String> {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/mc-sidecar");
        let lease = self.fleet.host.get(&path)?;
        let holder = lease["spec"]["holderIdentity"].as_str().context("nobody holds the Lease")?;
        Ok(holder.rsplit_once('_').context("no pod's name")?.0.to_owned())
    }
}

impl Member {
    /// Prepares the cluster with a pod, which stands for a user's workload.
    fn prepared(name: &'static str, cluster: &str) -> Result<Self> {
        let cluster = spare(cluster)?;
        let member = Self { name, cluster, api: Api::admin(cluster)?, _clean: Clean::take(cluster)? };
        let namespace = format!("/api/v1/namespaces/{NAMESPACE}");
        member.api.apply(
            &namespace,
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        )?;
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "main", "image": "none"}], "automountServiceAccountToken": false},
        });
        eventually("the namespace is as new ones are", SOON, || {
            member.api.get(&format!("{namespace}/configmaps/kube-root-ca.crt"))?;
            member.api.apply(&format!("{namespace}/pods/web"), &pod).map(Some)
        })?;
        Ok(member)
    }
}

/// The name of a token in an audit log: its claim `jti`.
fn token_id(token: &str) -> Result<String> {
    let claims = token.split('.').nth(1).context("no token")?;
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims)?)?;
    Ok(format!("JTI={}", claims["jti"].as_str().context("a token without an id")?))
}

const NAMESPACE: &str = "shop";
const PODS: &str = "/api/v1/namespaces/shop/pods";
