//! The host's side: registers members and their users, and counts the requests of the sidecar in the host's
//! audit log.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use harness::api::Api;
use harness::audit::AuditLog;
use harness::bed::{SYSTEM, bed, host};
use harness::own_fleet::OwnFleet;
use harness::own_sidecar::OwnSidecar;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::members::{DAY, Members, token};
use crate::site::CERTIFIED_NAME;

/// A sidecar's members.
pub(super) struct Fleet {
    own: OwnFleet,
    pub(super) names: Vec<String>,
    login: Login,
    begun: Instant,
}

/// A token of the sidecar's account that no other sidecar has, so that the host's audit log distinguishes
/// them.
struct Login {
    id: String,
    kubeconfig: PathBuf,
    _folder: TempDir,
}

/// The requests to the host, by verb and resource.
#[derive(Default)]
pub(super) struct Asked(BTreeMap<String, usize>);

impl Fleet {
    /// Registers members with both Secrets. On the host, binds ten users to each, and a hundred to all.
    pub(super) fn new(name: &str, count: usize, members: &Members, ca: &str) -> Result<Self> {
        let own = OwnFleet::new(&format!("bench-{name}"))?;
        let names: Vec<_> = (0..count).map(|number| format!("{name}-{number:03}")).collect();
        let host = host()?;
        let role = format!("bench-{name}");
        grant(&host, &role, &[], (0..100).map(|user| format!("operator-{user:03}@example.com")))?;
        // In parallel, because each request takes a connection; in sequence they would take a minute.
        thread::scope(|scope| {
            let parts = names.chunks(count.div_ceil(REGISTRARS));
            let registrars: Vec<_> = parts
                .map(|names| {
                    let (own, host) = (&own, &host);
                    scope.spawn(move || {
                        names.iter().try_for_each(|name| register(host, own, name, members, ca))?;
                        // The bed's sidecar has already reported that the members have no Secrets,
                        // since their Secrets are not in its namespace.
                        names.iter().try_for_each(|name| claim(host, own, name))
                    })
                })
                .collect();
            registrars
                .into_iter()
                .try_for_each(|one| one.join().map_err(|_| anyhow!("a registrar panicked"))?)
        })?;
        Ok(Self { own, names, login: Login::new()?, begun: Instant::now() })
    }

    /// Starts a sidecar with these controllers. It becomes the leader at once.
    pub(super) fn sidecar(&mut self, controllers: &str) -> Result<OwnSidecar> {
        let kubeconfig = format!("--kubeconfig={}", self.login.kubeconfig.display());
        let controllers = format!("--controllers={controllers}");
        self.begun = Instant::now();
        self.own.sidecar(&[&kubeconfig, &controllers, "--member-monitor-period=10s"])
    }

    /// The time since the sidecar was last started.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Waits until all members are Ready and their rights in sync. Returns the time from the
    /// sidecar's start until the first member was, and until all were.
    pub(super) fn until_in_step(&self) -> Result<(Duration, Duration)> {
        let mut first = None;
        loop {
            let all = self.own.host.get(MEMBER_CLUSTERS)?;
            let items = all["items"].as_array().context("no list")?;
            let ours = items.iter().filter(|item| {
                item["metadata"]["name"].as_str().is_some_and(|name| self.names.iter().any(|own| own == name))
            });
            let in_step = ours.filter(|member| is_in_step(member)).count();
            let elapsed = self.elapsed();
            if in_step > 0 {
                first.get_or_insert(elapsed);
            }
            if in_step == self.names.len() {
                return Ok((first.unwrap_or(elapsed), elapsed));
            }
            if elapsed > PATIENCE {
                bail!("only {in_step} of {} members are in step after {elapsed:?}", self.names.len());
            }
            thread::park_timeout(Duration::from_millis(200));
        }
    }

    /// The requests of our sidecar to the host since that time.
    pub(super) fn asked(&self, log: &AuditLog) -> Result<Asked> {
        let mut asked = Asked::default();
        for event in log.of_credential(&self.login.id)? {
            let resource = &event["objectRef"];
            let text = |key: &str| resource[key].as_str().unwrap_or_default();
            let mut what = format!("{} {}", event["verb"].as_str().unwrap_or_default(), text("resource"));
            if !text("subresource").is_empty() {
                what = format!("{what}/{}", text("subresource"));
            }
            *asked.0.entry(what).or_default() += 1;
        }
        Ok(asked)
    }

    /// Removes all of it.
    pub(super) fn remove(self) -> Result<()> {
        let host = &self.own.host;
        for kind in ["clusterrolebindings", "clusterroles"] {
            host.delete(&format!("/apis/rbac.authorization.k8s.io/v1/{kind}?labelSelector={LABEL}"))?;
        }
        host.delete(&format!("{MEMBER_CLUSTERS}?labelSelector={LABEL}"))?;
        host.delete(&format!("/api/v1/namespaces/{}", self.own.namespace))?;
        Ok(())
    }
}

impl Login {
    fn new() -> Result<Self> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 86400},
        });
        let path = format!("/api/v1/namespaces/{SYSTEM}/serviceaccounts/mc-sidecar/token");
        let answer = host()?.create(&path, &request)?;
        let token = answer["status"]["token"].as_str().context("no token")?;
        let claims = token.split('.').nth(1).context("no claims")?;
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims)?)?;
        let id = claims["jti"].as_str().context("a token without a name")?.to_owned();
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        let cluster = &bed()?.host;
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "host",
            "clusters": [{"name": "host", "cluster": {
                "server": cluster.server, "certificate-authority": cluster.ca_certificate,
            }}],
            "users": [{"name": "host", "user": {"token": token}}],
            "contexts": [{"name": "host", "context": {"cluster": "host", "user": "host"}}],
        });
        std::fs::write(&kubeconfig, config.to_string())?;
        Ok(Self { id, kubeconfig, _folder: folder })
    }
}

impl Asked {
    pub(super) fn writes(&self) -> usize {
        self.0.iter().filter(|(what, _)| is_write(what)).map(|(_, count)| count).sum()
    }

    pub(super) fn all(&self) -> usize {
        self.0.values().sum()
    }

    /// The most frequent requests.
    pub(super) fn most(&self, per: f64) -> String {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let shown = all.into_iter().take(6).map(|(what, count)| format!("{what} {:.0}", *count as f64 / per));
        shown.collect::<Vec<_>>().join(", ")
    }
}

fn is_write(what: &str) -> bool {
    !["get ", "list ", "watch "].iter().any(|verb| what.starts_with(verb))
}

fn is_in_step(member: &Value) -> bool {
    let conditions = member["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let holds = |kind: &str| {
        conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    holds("Ready") && holds("AuthSynced")
}

fn register(host: &Api, own: &OwnFleet, name: &str, members: &Members, ca: &str) -> Result<()> {
    let secret = |account: &str| {
        Ok::<_, anyhow::Error>(json!({
            "server": members.server(name), "ca.crt": ca, "tls-server-name": CERTIFIED_NAME,
            "token": token(account, DAY)?,
        }))
    };
    own.secret(&format!("{name}.manager"), &secret("kubectl-mc-manager")?)?;
    own.secret(&format!("{name}.member"), &secret("kubectl-mc-impersonator")?)?;
    host.apply(
        &format!("{MEMBER_CLUSTERS}/{name}"),
        &json!({
            "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster",
            "metadata": {"name": name, "labels": {LABEL: "", "env": "bench"}}, "spec": {},
        }),
    )?;
    let users = (0..10).map(|user| format!("developer-{user}@{name}.example.com"));
    grant(host, &format!("bench-{name}"), &[name], users)
}

/// Assigns a member to the fleet's own sidecar. It has no conditions yet.
fn claim(host: &Api, own: &OwnFleet, name: &str) -> Result<()> {
    let status = json!({"status": {"namespace": own.namespace, "conditions": []}});
    host.merge(&format!("{MEMBER_CLUSTERS}/{name}/status"), &status).map(drop)
}

/// Lets users use the proxy of these members, or of all.
fn grant(host: &Api, name: &str, members: &[&str], users: impl Iterator<Item = String>) -> Result<()> {
    let rule = json!({
        "apiGroups": ["proxy.kubectl-mc.dev"], "resources": ["clusters/proxy"], "verbs": ["*"],
        "resourceNames": members,
    });
    host.apply(
        &format!("{RBAC}/clusterroles/{name}"),
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "labels": {LABEL: ""}}, "rules": [rule],
        }),
    )?;
    bind(host, name, name, users)
}

/// Binds users to a role.
pub(super) fn bind(host: &Api, name: &str, role: &str, users: impl Iterator<Item = String>) -> Result<()> {
    let group = "rbac.authorization.k8s.io";
    let subjects: Vec<_> =
        users.map(|user| json!({"apiGroup": group, "kind": "User", "name": user})).collect();
    host.apply(
        &format!("{RBAC}/clusterrolebindings/{name}"),
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name, "labels": {LABEL: ""}},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role}, "subjects": subjects,
        }),
    )?;
    Ok(())
}

pub(super) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MEMBER_CLUSTERS: &str = "/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters";
/// The label of all objects that are created here.
const LABEL: &str = "bench-controllers";
const REGISTRARS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(180);
