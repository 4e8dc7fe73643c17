//! A flood in one priority level leaves the other levels their places, at the sidecar and at a
//! member. The logins are those of the host's front proxy.

use anyhow::{Result, ensure};
use harness::bed::host;
use harness::fake_member::{FakeMember, Step, ok};
use harness::front_proxy;
use harness::http1::{Connection, Endpoint, member_path};
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::wait::{SOON, eventually};
use serde_json::json;

#[test]
fn flood_of_users_leaves_other_levels_their_places() -> Result<()> {
    let mut site = Site::start("users", &["--max-requests-inflight=20"])?;
    let rejected = "apiserver_flowcontrol_rejected_requests_total{priority_level=\"interactive\"";
    let users: Vec<_> = (0..30).map(|number| user(&format!("flooder-{}", number % 10))).collect();
    // Three places are reserved for the system, and three for service accounts.
    site.flood(&users, 14)?;
    eventually("the others are refused", SOON, || Ok((site.own.metric(rejected)? >= 16.0).then_some(())))?;
    assert_eq!(site.asked(&user("late"))?, 429);
    assert_eq!(site.asked(&account("ci", "runner"))?, 200);
    assert_eq!(site.asked(&administrator())?, 200);
    // Members refuse the host's control plane, but it may list them.
    assert_eq!(site.get(CLUSTERS, &login("system:kube-scheduler", &[]))?, 200);
    site.end()
}

#[test]
fn flood_of_users_takes_every_place_without_shares() -> Result<()> {
    let shares = "--priority-level-shares=system=0,workload-high=0,interactive=0,catch-all=0";
    let mut site = Site::start("no-shares", &["--max-requests-inflight=20", shares])?;
    let users: Vec<_> = (0..30).map(|number| user(&format!("flooder-{}", number % 10))).collect();
    site.flood(&users, 20)?;
    assert_eq!(site.asked(&account("ci", "runner"))?, 429);
    assert_eq!(site.get(CLUSTERS, &login("system:kube-scheduler", &[]))?, 429);
    assert_eq!(site.asked(&administrator())?, 200, "exempt requests pass");
    site.end()
}

#[test]
fn flood_of_service_accounts_leaves_users_their_places() -> Result<()> {
    let mut site = Site::start("accounts", &[])?;
    // Of a member's 160 places, 60 are reserved for other levels, and one namespace can have three
    // quarters of the rest.
    let accounts: Vec<_> = (0..80).map(|number| account("one", &format!("runner-{number}"))).collect();
    site.flood(&accounts, 75)?;
    let accounts: Vec<_> =
        (0..60).map(|number| account(&format!("other-{}", number % 20), "runner")).collect();
    site.flood(&accounts, 100)?;
    assert_eq!(site.asked(&account("late", "runner"))?, 429);
    assert_eq!(site.asked(&user("person"))?, 200);
    assert_eq!(site.asked(&administrator())?, 200);
    site.end()
}

/// A member that leaves `/flood` unanswered, and a sidecar without queues in front of it.
struct Site {
    fake: FakeMember,
    own: OwnSidecar,
    front_proxy: Endpoint,
    open: Vec<Connection>,
}

impl Site {
    fn start(name: &str, flags: &[&str]) -> Result<Self> {
        let fake = FakeMember::start(&format!("e2e-levels-{name}"), |request| {
            if request.target().contains("/flood") { vec![Step::ReceiveAll] } else { ok() }
        })?;
        let flags = [flags, &["--max-requests-queued-per-caller=0"]].concat();
        let own = OwnSidecar::with(&Difference { flags: &flags, ..Difference::default() })?;
        let front_proxy = own.endpoint(Some(&front_proxy::certificate()?))?;
        let_group_in()?;
        Ok(Self { fake, own, front_proxy, open: Vec::new() })
    }

    /// Sends a request for each login, until `held` requests are at the member.
    fn flood(&mut self, logins: &[String], held: usize) -> Result<()> {
        for login in logins {
            let mut connection = self.front_proxy.connect()?;
            connection.send(get(&member_path(&self.fake.name, "/flood"), login).as_bytes())?;
            self.open.push(connection);
        }
        let arrived = || self.fake.requests("/flood").len();
        eventually("the places are taken", SOON, || Ok((arrived() >= held).then_some(())))?;
        // A later request on its own connection is answered only after the earlier ones were
        // admitted or refused.
        let sent = self.open.len();
        eventually("each is admitted or refused", SOON, || {
            let refused = self.own.metric("apiserver_flowcontrol_rejected_requests_total")?
                + self.own.metric("mc_sidecar_limit_refused_total{limit=\"member\"}")?;
            Ok((refused >= (sent - held) as f64).then_some(()))
        })?;
        ensure!(arrived() == held, "{} of {held} arrived", arrived());
        Ok(())
    }

    fn asked(&self, login: &str) -> Result<u16> {
        self.get(&member_path(&self.fake.name, "/asked"), login)
    }

    fn get(&self, path: &str, login: &str) -> Result<u16> {
        Ok(self.front_proxy.exchange(get(path, login).as_bytes())?.status())
    }

    /// Ends the flood and waits until every place is free again.
    fn end(mut self) -> Result<()> {
        self.open.clear();
        for metric in
            ["apiserver_flowcontrol_current_executing_requests", "mc_sidecar_limit_in_use{limit=\"member\"}"]
        {
            eventually(metric, SOON, || Ok((self.own.metric(metric)? <= 0.0).then_some(())))?;
        }
        Ok(())
    }
}

/// Grants the group of all logins here every cluster on the host.
fn let_group_in() -> Result<()> {
    let api = host()?;
    let path = |kind: &str| format!("/apis/rbac.authorization.k8s.io/v1/{kind}/{GROUP}");
    let resources = ["clusters", "clusters/proxy"];
    let rules =
        json!([{"apiGroups": ["proxy.kubectl-mc.dev"], "resources": resources, "verbs": ["get", "list"]}]);
    let role =
        json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": GROUP}, "rules": rules});
    api.apply(&path("clusterroles"), &role)?;
    let binding = json!({
        "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": GROUP},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": GROUP},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUP}],
    });
    api.apply(&path("clusterrolebindings"), &binding)?;
    eventually("the rule is known", SOON, || {
        let attributes = json!({"group": "proxy.kubectl-mc.dev", "resource": "clusters", "verb": "list"});
        Ok(api.may("anybody", &[GROUP.to_owned()], &attributes)?.then_some(()))
    })
}

fn get(path: &str, login: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n{login}\r\n")
}

fn user(name: &str) -> String {
    login(&format!("e2e-levels-{name}"), &[])
}

fn account(namespace: &str, name: &str) -> String {
    let all = format!("system:serviceaccounts:e2e-levels-{namespace}");
    login(&format!("system:serviceaccount:e2e-levels-{namespace}:{name}"), &["system:serviceaccounts", &all])
}

fn administrator() -> String {
    login("e2e-levels-administrator", &["system:masters"])
}

/// The headers of a login, as the host's front proxy sends them.
fn login(user: &str, groups: &[&str]) -> String {
    let groups = groups.iter().chain(&[GROUP]).map(|group| format!("X-Remote-Group: {group}\r\n"));
    format!("X-Remote-User: {user}\r\n{}", groups.collect::<String>())
}

const GROUP: &str = "e2e-levels";
const RBAC: &str = "rbac.authorization.k8s.io/v1";
const CLUSTERS: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters";
