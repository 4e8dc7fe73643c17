//! An OIDC group that has access by a label keeps it while members join, while the host is away for longer
//! than tokens are valid, and while another host registers a member.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::aged_token::aged;
use harness::api::Api;
use harness::bed::{SYSTEM, bed};
use harness::oidc::Issuers;
use harness::own_fleet::OwnFleet;
use harness::spare_host::{SIDECAR, SpareHost, listing};
use harness::tool::Tool;
use harness::turn::Turn;
use harness::wait::{SOON, eventually};
use serde_json::json;

use super::{Member, NAMESPACE};

#[test]
fn group_keeps_access_while_members_join_and_host_is_away() -> Result<()> {
    let story = Story::begin()?;
    let before = story.everything()?;
    story.install()?;
    story.join("east")?;
    story.join("west")?;
    story.give_the_group_access()?;
    story.everybody_of_the_group_reads(&["east", "west"])?;
    story.join("north")?;
    story.everybody_of_the_group_reads(&["east", "north", "west"])?;
    story.host_is_away_for_a_month()?;
    story.everybody_of_the_group_reads(&["east", "north", "west"])?;
    story.another_host_asks_for_a_member()?;
    story.leave("west")?;
    story.everybody_of_the_group_reads(&["east", "north"])?;
    story.take_away()?;
    let after = story.everything()?;
    ensure!(after == before, "left: {:?}; lost: {:?}", &after - &before, &before - &after);
    Ok(())
}

struct Story {
    // This is dropped before the host, whose lock covers all of them.
    members: [Member; 3],
    /// The lock of `north`, the cluster that other tests use for joins.
    _turn: Turn,
    host: SpareHost,
    fleet: OwnFleet,
    admin: Tool,
    /// The issuers of the group's ID tokens.
    _issuers: Issuers,
    /// A user of the group.
    ulla: Tool,
}

impl Story {
    fn begin() -> Result<Self> {
        let (host, turn) = (SpareHost::take()?, Turn::take("j1")?);
        let members = [
            Member::prepared("east", "s2")?,
            Member::prepared("west", "s3")?,
            Member::prepared("north", "j1")?,
        ];
        let program = Path::new(env!("CARGO_BIN_EXE_kubectl-mc"));
        let mut clusters = vec![host.cluster];
        clusters.extend(members.iter().map(|member| member.cluster));
        let issuers = Issuers::of(host.cluster)?;
        let claims = json!({"sub": "ulla", "groups": ["night"], "uid": "1", "tenant": "none"});
        let ulla = issuers.ours.caller_at(host.cluster, &claims)?;
        Ok(Self {
            fleet: OwnFleet { namespace: SYSTEM.to_owned(), host: Api::admin(host.cluster)? },
            admin: Tool::plugin_at(program, &clusters)?,
            ulla: Tool::plugin(program, &ulla)?,
            _issuers: issuers,
            members,
            host,
            _turn: turn,
        })
    }

    /// Every object of all clusters.
    fn everything(&self) -> Result<BTreeSet<String>> {
        let clusters = self.members.iter().map(|member| member.cluster).chain([self.host.cluster]);
        let mut all = BTreeSet::new();
        for cluster in clusters {
            all.extend(listing(cluster)?.into_iter().map(|object| format!("{}: {object}", cluster.name)));
        }
        Ok(all)
    }

    fn install(&self) -> Result<()> {
        let image = ["install", "--image", SIDECAR, "--image-pull-policy=Never"];
        self.admin.ok(&[&image[..], &["--sidecar-flag=--member-monitor-period=1s"]].concat()).map(drop)
    }

    /// Joins a member of production, whose administrators let `view` be granted.
    fn join(&self, name: &str) -> Result<()> {
        let context = format!("--member-context={}", self.member(name).cluster.name);
        self.admin.ok(&["join", name, &context, "--labels=env=prod", "--bindable-roles=view"]).map(drop)
    }

    fn give_the_group_access(&self) -> Result<()> {
        let said = self.admin.ok(&GRANT)?;
        ensure!(said.contains("has view on 2/2 clusters"), "{said}");
        Ok(())
    }

    fn everybody_of_the_group_reads(&self, clusters: &[&str]) -> Result<()> {
        let width = clusters.iter().map(|name| name.len()).max().unwrap_or_default();
        let expected: String = clusters.iter().map(|name| format!("{name:width$} | pod/web\n")).collect();
        eventually(&format!("the group reads {clusters:?}"), 2 * SOON, || {
            let pods = self.ulla.ok(&["--all-clusters", "get", "pods", "-n", NAMESPACE, "-o", "name"])?;
            ensure!(pods == expected, "{pods}");
            Ok(Some(()))
        })
    }

    /// Stops the sidecars and ages the tokens, in place of a wait for their expiration.
    fn host_is_away_for_a_month(&self) -> Result<()> {
        let kubectl = Tool::admin(self.host.cluster)?;
        let scale = |replicas: &str| {
            kubectl.ok(&["scale", "deployment/mc-sidecar", "-n", SYSTEM, &format!("--replicas={replicas}")])
        };
        scale("0")?;
        let pods = ["wait", "pods", "--all", "-n", SYSTEM, "--for=delete", "--timeout=60s"];
        kubectl.ok(&pods)?;
        for Member { name, cluster, .. } in &self.members {
            for which in ["member", "manager"] {
                let secret = format!("{name}.{which}");
                let token = aged(cluster, &self.fleet.token(&secret)?, 31 * DAY)?;
                let path = format!("/api/v1/namespaces/{SYSTEM}/secrets/{secret}");
                self.fleet.host.merge(&path, &json!({"data": {"token": STANDARD.encode(token)}}))?;
            }
        }
        scale("2").map(drop)
    }

    fn another_host_asks_for_a_member(&self) -> Result<()> {
        let program = Path::new(env!("CARGO_BIN_EXE_kubectl-mc"));
        let east = self.member("east").cluster;
        let other = Tool::plugin_at(program, &[&bed()?.host, east])?;
        let context = format!("--member-context={}", east.name);
        let refused = other.run(&["join", "e2e-weekend-east", &context])?;
        refused.failure(&["joined to another host already, as east"]).map(drop)
    }

    fn leave(&self, name: &str) -> Result<()> {
        let context = format!("--member-context={}", self.member(name).cluster.name);
        self.admin.ok(&["unjoin", name, &context, "--yes"]).map(drop)
    }

    fn take_away(&self) -> Result<()> {
        let revoke: Vec<_> =
            GRANT.iter().map(|&word| if word == "grant" { "revoke" } else { word }).collect();
        self.admin.ok(&revoke)?;
        self.leave("east")?;
        self.leave("north")?;
        self.admin.ok(&["uninstall"]).map(drop)
    }

    fn member(&self, name: &str) -> &Member {
        let [first, others @ ..] = &self.members;
        others.iter().find(|member| member.name == name).unwrap_or(first)
    }
}

const GRANT: [&str; 5] = ["access", "grant", "view", "--group=oidc:night", "--cluster-selector=env=prod"];
const DAY: Duration = Duration::from_secs(24 * 3600);
