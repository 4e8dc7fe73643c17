//! A real Prometheus reads the metrics: each metric in the alert rules and the dashboard exists,
//! and alerts fire while a fault lasts.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use harness::bed::host;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step, ok};
use harness::http1::{Connection, member_path};
use harness::monitoring;
use harness::own_fleet::{OwnFleet, unsigned_token};
use harness::own_sidecar::OwnSidecar;
use harness::prometheus::Prometheus;
use harness::scene;
use harness::wait::{SOON, eventually};
use regex::Regex;
use serde_json::json;

#[test]
fn every_metric_of_alerts_and_dashboard_exists() -> Result<()> {
    // Few places, so that some requests are refused.
    let limits = ["--max-requests-inflight=20", "--max-requests-queued-per-caller=0", "--max-watches=2"];
    let site = Site::start("metrics", &limits)?;
    let user = site.user()?;
    let held: Vec<_> = (0..20)
        .map(|_| site.send(&user, "GET", "/hang", ""))
        .chain((0..3).map(|_| site.send(&user, "GET", "/api/v1/pods?watch=true", "")))
        .collect::<Result<_>>()?;
    site.fake.wait_for("/hang", |_| true)?;
    site.fake.wait_for("watch=true", |_| true)?;
    let upgrade = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
    let mut tunnel = site.send(&site.admin, "POST", "/tunnel", upgrade)?;
    ensure!(tunnel.head()?.status == 101, "no tunnel");
    tunnel.send(b"echo")?;
    ensure!(tunnel.exactly(4)? == b"echo", "no echo");
    for (path, status) in [("/api/v1/pods", 200), ("/api/v1/pods/one", 200), ("/broken", 502)] {
        let answer = site.send(&site.admin, "GET", path, "")?.response()?;
        ensure!(answer.status() == status, "{path}: {}", answer.text());
    }
    site.list_clusters()?;
    site.fail_to_log_in()?;
    let prometheus = site.prometheus()?;
    eventually("each metric has a series", SOON, || {
        let types = prometheus.types()?;
        let exists = |name: &String| types.contains_key(name.trim_end_matches("_total"));
        let mut missing = monitoring::metrics()?;
        missing.retain(|name| !exists(name) && !UNSEEN.contains(&name.as_str()));
        ensure!(missing.is_empty(), "missing: {missing:#?}");
        Ok(Some(()))
    })?;
    prometheus.until_rules_are_evaluated()?;
    // This checks labels too: a query for a label that does not exist returns nothing.
    eventually("each panel has data", SOON, || {
        for (title, query) in monitoring::panel_queries()? {
            let found = prometheus.query(&with_variables(&query))?;
            let is_unseen = UNSEEN.iter().any(|name| query.contains(name));
            ensure!(is_unseen || !found.is_empty(), "{title}: no data: {query}");
        }
        Ok(Some(()))
    })?;
    drop((held, tunnel));
    Ok(())
}

#[test]
fn alerts_fire_while_a_fault_lasts() -> Result<()> {
    let site = Site::start("alerts", &[])?;
    let prometheus = site.prometheus()?;
    let unreachable = ("McMemberUnreachable", [("cluster", site.fake.name.as_str())]);
    ensure!(prometheus.alert(unreachable.0, &unreachable.1)?.is_none(), "the member is reachable");
    ensure!(prometheus.alert("McSidecarFailedLogins", &[])?.is_none(), "no login failed");
    site.fake.shut(true);
    for _ in 0..50 {
        site.fail_to_log_in()?;
    }
    prometheus.until_alert("McSidecarFailedLogins", &[], true)?;
    prometheus.until_alert(unreachable.0, &unreachable.1, true)?;
    site.fake.shut(false);
    prometheus.until_alert(unreachable.0, &unreachable.1, false)?;
    prometheus.until_alert("McSidecarFailedLogins", &[], false)?;
    let Site { mut own, .. } = site;
    own.kill()?;
    prometheus.until_alert("McSidecarAbsent", &[], true)
}

/// Metrics without a series here: no controller fails.
const UNSEEN: [&str; 1] = ["mc_sidecar_controller_restarts_total"];

/// A sidecar that leads and audits, its member, and a caller who may read the metrics.
struct Site {
    fake: FakeMember,
    own: OwnSidecar,
    admin: Caller,
    reader: Caller,
    _audit: tempfile::TempDir,
}

impl Site {
    fn start(name: &str, flags: &[&str]) -> Result<Self> {
        let full = format!("prometheus-{name}");
        let reader = Caller::service_account(&format!("e2e-{full}-reader"), "prometheus")?;
        let binding = format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/e2e-{full}");
        host()?.apply(
            &binding,
            &json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("e2e-{full}")},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kubectl-mc-metrics"},
                "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": format!("e2e-{full}-reader")}],
            }),
        )?;
        let fleet = OwnFleet::new(&full)?;
        let fake = FakeMember::unregistered(&format!("e2e-{full}"), |request| match request.target() {
            target if target.contains("watch=true") => vec![Step::Hang],
            target if target.contains("/hang") => vec![Step::Hang],
            target if target.contains("/broken") => vec![Step::Send(b"no HTTP\r\n\r\n".into())],
            target if target.contains("/tunnel") => vec![
                Step::Send(
                    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
                        .into(),
                ),
                Step::Echo,
            ],
            _ => ok(),
        })?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        // Half of the token's lifetime is over, and the member issues no new one: renewals fail.
        let account = "system:serviceaccount:kubectl-mc-system:kubectl-mc-impersonator";
        let token = json!({"sub": account, "iat": now - HALF_LIFE, "exp": now + HALF_LIFE});
        let token = unsigned_token(&token);
        fleet.register(&fake.name, &fake.secret(&json!({"token": token})))?;
        fleet.secret(&format!("{}.manager", fake.name), &fake.secret(&json!({"token": token})))?;
        let audit = tempfile::tempdir()?;
        let log = format!("--audit-log-path={}", audit.path().join("log").display());
        let own = fleet.sidecar(&[&[log.as_str()], flags].concat())?;
        fleet.until(&fake.name, "Reachable", "True", "Answers")?;
        let admin = Caller::certificate(&format!("e2e-{full}-admin"), &["system:masters"])?;
        Ok(Self { fake, own, admin, reader, _audit: audit })
    }

    /// Prometheus with the project's rules, changed so that alerts fire at once and look back only
    /// a few seconds.
    fn prometheus(&self) -> Result<Prometheus> {
        let rules = Regex::new(r"for: \d+[mh]")?.replace_all(&monitoring::alerts()?, "for: 0s").into_owned();
        let rules = Regex::new(r"\[\d+[mh]\]")?.replace_all(&rules, WINDOW).into_owned();
        let token = self.reader.token.clone().unwrap_or_default();
        Prometheus::start(&[&self.own], &token, &rules)
    }

    /// A caller without special rights, who may read the member.
    fn user(&self) -> Result<Caller> {
        let name = format!("{}-user", self.fake.name);
        let caller = Caller::certificate(&name, &[])?;
        let (group, resource) = ("proxy.kubectl-mc.dev", "clusters/proxy");
        let rule = json!({"apiGroups": [group], "resources": [resource], "verbs": ["get"]});
        let attributes =
            json!({"group": group, "resource": "clusters", "subresource": "proxy", "verb": "get"});
        scene::grant(&host()?, &name, &caller, &rule, &attributes)?;
        Ok(caller)
    }

    fn send(&self, caller: &Caller, method: &str, rest: &str, headers: &str) -> Result<Connection> {
        let mut connection = self.own.endpoint(caller.certificate.as_deref())?.connect()?;
        let path = member_path(&self.fake.name, rest);
        connection.send(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes())?;
        Ok(connection)
    }

    fn list_clusters(&self) -> Result<()> {
        let list = "GET /apis/proxy.kubectl-mc.dev/v1alpha1/clusters HTTP/1.1\r\nHost: x\r\n\r\n";
        let answer = self.own.endpoint(self.admin.certificate.as_deref())?.exchange(list.as_bytes())?;
        ensure!(answer.status() == 200, "{}", answer.text());
        Ok(())
    }

    fn fail_to_log_in(&self) -> Result<()> {
        let path = member_path(&self.fake.name, "/api/v1/pods");
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\n\r\n");
        let answer = self.own.endpoint(None)?.exchange(request.as_bytes())?;
        ensure!(answer.status() == 401, "{}", answer.text());
        Ok(())
    }
}

/// A query of the dashboard as Grafana sends it, with all replicas and members.
fn with_variables(query: &str) -> String {
    let variables =
        [("[$__rate_interval]", WINDOW), ("$job", "mc-sidecar"), ("$replica", ".*"), ("$cluster", ".*")];
    variables.iter().fold(query.to_owned(), |query, (name, value)| query.replace(name, value))
}

const WINDOW: &str = "[10s]";
const HALF_LIFE: u64 = 15 * 24 * 3600;
