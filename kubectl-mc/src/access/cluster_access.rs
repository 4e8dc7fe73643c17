//! Implements `kubectl mc access grant` and `revoke` for a grant that the sidecar's leader maintains: a
//! ClusterAccess on the host.

mod content;

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use http::{Method, StatusCode};
use jiff::Timestamp;
use kubectl_mc_api::names::{FLEET_GROUP_VERSION, KUBECTL_MC, MANAGED_BY};
use kubectl_mc_api::path;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use self::content::Content;
use super::role::{GrantedRole, Reach};
use super::selection::{Clusters, names};
use super::subject::GrantSubject;
use super::{label_selector, through};
use crate::apply::delete::Delete;
use crate::apply::{Apply, ApplyError};
use crate::cluster::connection::Connection;
use crate::cluster::fields::condition;
use crate::env::Env;
use crate::error::{Failure, mc};
use crate::exit::ExitStatus;
use crate::multi::selection::SelectedCluster;
use crate::printer::Printer;
use crate::progress::Progress;

/// A role for subjects on clusters, for as long as the ClusterAccess exists.
pub(super) struct MaintainedGrant<'a> {
    pub(super) role: GrantedRole<'a>,
    pub(super) subjects: &'a [GrantSubject],
    pub(super) clusters: &'a Clusters,
    /// The names and patterns of clusters, as typed.
    pub(super) terms: &'a [String],
    /// The value of `--name`.
    pub(super) name: Option<&'a str>,
}

impl MaintainedGrant<'_> {
    /// Writes the ClusterAccess and waits for its status.
    pub(super) async fn write(
        &self,
        duration: Option<Duration>,
        dry_run: bool,
        host: &Connection,
        env: &Env,
        printer: &Printer,
    ) -> Result<ExitStatus, Failure> {
        let clock = served(host).await?;
        let end = duration.map(|duration| end(clock, duration)).transpose()?;
        self.exists(host).await?;
        let verbs = self.proxy_verbs(host, env).await;
        let apply = Apply { dry_run, force_conflicts: true };
        let written = apply.print_each("host: ", host, [self.object(verbs, end)], printer).await;
        written.map_err(missing_kind)?;
        if dry_run {
            return Ok(ExitStatus::Success);
        }
        let step = Progress::new(printer).step("waiting for the sidecar to grant it on the clusters");
        let access = wait(host, &path(&self.name())).await;
        let kubectl_mc = host.cluster.kubectl_mc();
        let Some(access) = access else {
            drop(step);
            printer.note_line(&format!("the grant is under way; see: {kubectl_mc} access list"));
            return Ok(ExitStatus::Success);
        };
        step.done();
        ungranted(&access).iter().for_each(|line| printer.note_line(line));
        printer.out_line(&self.next(&access, &kubectl_mc));
        Ok(ExitStatus::Success)
    }

    /// Whether the ClusterAccess exists. Fails if the name was given and belongs to another grant.
    pub(super) async fn exists(&self, host: &Connection) -> Result<bool, Failure> {
        let path = path(&self.name());
        let Some(name) = self.name else {
            // A caller without the right to read ClusterAccesses has not written any.
            return Ok(host.readable(&path).await?.is_some());
        };
        let Some(stored) = host.get(&path).await? else { return Ok(false) };
        let (stored, given) = (Content::of(&stored["spec"]), Content::of(&self.object(None, None)["spec"]));
        let has_pattern = match self.clusters {
            Clusters::Named(clusters) => {
                self.terms.iter().any(|term| !names(clusters).contains(&term.as_str()))
            }
            Clusters::Labelled { .. } => false,
        };
        if stored.is_same(&given, has_pattern) {
            return Ok(true);
        }
        Err(Failure::usage(format!("nothing was changed: ClusterAccess {name} grants {stored}, not {given}"))
            .with_hint(
                mc(format!("access revoke --name={name}"))
                    .after("revoke it by its name alone")
                    .and("or choose another --name"),
            ))
    }

    /// Deletes the ClusterAccess; returns whether it existed.
    pub(super) async fn delete(
        &self,
        delete: Delete,
        host: &Connection,
        printer: &Printer,
    ) -> Result<bool, Failure> {
        delete_named(&self.name(), delete, host, printer).await
    }

    /// The given name, or else a readable name with a hash of the whole grant except its end. Equal grants
    /// get equal names.
    pub(super) fn name(&self) -> String {
        if let Some(name) = self.name {
            return name.to_owned();
        }
        let mut subjects: Vec<_> = self.subjects.iter().map(GrantSubject::tag).collect();
        subjects.sort();
        let (clusters, shown) = match self.clusters {
            Clusters::Named(clusters) => {
                let mut terms = self.terms.iter().map(String::as_str).collect::<Vec<_>>();
                if terms.is_empty() {
                    terms = names(clusters);
                    terms.sort_unstable();
                }
                (json!(terms), terms.join("-"))
            }
            Clusters::Labelled { text: None, selector } => (json!(selector), "all".to_owned()),
            Clusters::Labelled { selector, .. } => (json!(selector), label_selector::words(selector)),
        };
        let role = self.role.to_string();
        let all = json!([role, self.role.namespace, subjects, clusters]).to_string();
        let hash = digest(&SHA256, all.as_bytes());
        let hash: String = hash.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        let words = [&role, self.role.namespace.unwrap_or_default(), &subjects.join("-"), &shown];
        let mut name = String::new();
        for letter in words.join("-").chars() {
            let letter = if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
            // A dash neither starts the name nor follows another dash.
            if letter != '-' || !(name.is_empty() || name.ends_with('-')) {
                name.push(letter);
            }
        }
        name.truncate(READABLE);
        format!("{}-{hash}", name.trim_end_matches('-'))
    }

    fn object(&self, verbs: Option<&[&str]>, end: Option<Timestamp>) -> Value {
        let subjects: Vec<_> = self.subjects.iter().map(GrantSubject::rbac).collect();
        let role = json!({"kind": self.role.kind.as_str(), "name": self.role.name});
        let mut spec = json!({"subjects": subjects, "roleRef": role});
        match self.clusters {
            Clusters::Named(clusters) => spec["clusters"] = json!(names(clusters)),
            Clusters::Labelled { selector, .. } => spec["clusterSelector"] = json!(selector),
        }
        if let Some(namespace) = self.role.namespace {
            spec["namespaces"] = json!([namespace]);
        }
        if let Some(verbs) = verbs {
            spec["proxyVerbs"] = json!(verbs);
        }
        if let Some(end) = end {
            spec["expirationTimestamp"] = end.to_string().into();
        }
        let mut object = named(&self.name());
        object["metadata"]["labels"] = json!({MANAGED_BY: KUBECTL_MC});
        object["spec"] = spec;
        object
    }

    /// The verbs on `clusters/proxy` that the role needs; `None` means all verbs. Reads the role on a member
    /// where the caller may.
    async fn proxy_verbs(&self, host: &Connection, env: &Env) -> Option<&'static [&'static str]> {
        let candidates = self.candidates(host).await;
        for name in candidates.iter().filter_map(SelectedCluster::member).take(MEMBERS_TRIED) {
            let read = timeout(READ_TIMEOUT, async {
                let member = through::member(&host.cluster, name, env).await?;
                let role = self.role.path();
                through::ask(&member, &host.cluster, name, Method::GET, &role, None).await
            });
            if let Ok(Ok(answer)) = read.await
                && answer.status.is_success()
            {
                return verbs(Reach::of(&answer.json()));
            }
        }
        verbs(self.role.assumed_reach())
    }

    /// The selected clusters that may answer.
    async fn candidates(&self, host: &Connection) -> Vec<SelectedCluster> {
        let mut candidates = match self.clusters {
            Clusters::Named(clusters) => clusters.clone(),
            Clusters::Labelled { text, .. } => {
                let text = utf8_percent_encode(text.as_deref().unwrap_or_default(), NON_ALPHANUMERIC);
                let list = host.get(&format!("{}?labelSelector={text}", path::CLUSTERS_PATH)).await;
                SelectedCluster::of_list(&list.ok().flatten().unwrap_or_default())
            }
        };
        candidates.retain(|cluster| cluster.not_ready().is_none());
        candidates
    }

    /// Describes the result and names the next command.
    fn next(&self, access: &Value, kubectl_mc: &str) -> String {
        let (subject, role) = (&self.subjects[0], self.role);
        let summary = access["status"]["summary"].as_str().unwrap_or("0/0");
        let end = access["spec"]["expirationTimestamp"].as_str();
        let end = end.map(|end| format!(" until {end}")).unwrap_or_default();
        if summary.starts_with("0/") {
            return format!("{subject} has {role} on no cluster yet; see: {kubectl_mc} access list");
        }
        let place = role.namespace.map_or_else(|| " -A".to_owned(), |namespace| format!(" -n {namespace}"));
        let clusters = self.clusters.flags();
        format!(
            "{subject} has {role} on {summary} clusters{end}; next, as that user: {kubectl_mc} {clusters} get pods{place}"
        )
    }
}

/// Deletes a ClusterAccess; returns whether it existed.
pub(super) async fn delete_named(
    name: &str,
    delete: Delete,
    host: &Connection,
    printer: &Printer,
) -> Result<bool, Failure> {
    Ok(delete.print_each("host: ", host, std::iter::once(named(name)), printer).await?)
}

/// The path of a ClusterAccess.
pub(super) fn path(name: &str) -> String {
    format!("{}/{name}", path::CLUSTER_ACCESSES_PATH)
}

/// Checks that the host serves ClusterAccesses; returns the host's clock.
pub(super) async fn served(host: &Connection) -> Result<Timestamp, Failure> {
    let answer = host.send(Method::GET, &format!("/apis/{FLEET_GROUP_VERSION}"), None).await?;
    let resources = answer.json();
    let resources = resources["resources"].as_array();
    let is_there = resources
        .is_some_and(|resources| resources.iter().any(|resource| resource["name"] == "clusteraccesses"));
    // If the caller may not read discovery, a missing kind shows in a later request.
    if answer.status == StatusCode::NOT_FOUND || (answer.status.is_success() && !is_there) {
        return Err(not_served());
    }
    Ok(answer.date.unwrap_or_else(Timestamp::now))
}

/// The verbs on `clusters/proxy` that a ClusterAccess names; `None` means all verbs.
fn verbs(reach: Reach) -> Option<&'static [&'static str]> {
    match reach {
        Reach::Read => Some(reach.verbs()),
        Reach::Write => None,
    }
}

fn named(name: &str) -> Value {
    json!({"apiVersion": FLEET_GROUP_VERSION, "kind": "ClusterAccess", "metadata": {"name": name}})
}

fn not_served() -> Failure {
    Failure::new("the host does not serve ClusterAccess: its installation is older than this plugin")
        .with_hint(
            mc("install")
                .after("an admin of the host runs")
                .and("grants by name need no ClusterAccess: -C m1,m2"),
        )
}

fn missing_kind(error: ApplyError) -> Failure {
    match error {
        ApplyError::Refused { status, .. } if status.code == 404 => not_served(),
        error => error.into(),
    }
}

/// When the grant expires, in whole seconds.
fn end(now: Timestamp, duration: Duration) -> Result<Timestamp, Failure> {
    let seconds = i64::try_from(duration.as_secs().max(1)).ok();
    let end = seconds.and_then(|seconds| now.as_second().checked_add(seconds));
    end.and_then(|end| Timestamp::from_second(end).ok()).ok_or_else(|| {
        Failure::usage("--for is too long").with_hint("leave --for out for access that does not end")
    })
}

/// Waits until the status reports this generation and every cluster. Returns `None` after the timeout.
async fn wait(host: &Connection, path: &str) -> Option<Value> {
    let begin = Instant::now();
    let settled = async {
        loop {
            let access = host.get(path).await.ok().flatten();
            let is_final = |access: &Value| !may_pass(access) || begin.elapsed() > PASSING;
            if let Some(access) = access.filter(|access| is_settled(access) && is_final(access)) {
                return access;
            }
            sleep(POLL).await;
        }
    };
    timeout(WAIT_TIMEOUT, settled).await.ok()
}

fn is_settled(access: &Value) -> bool {
    let status = &access["status"];
    let mut clusters = status["clusters"].as_array().into_iter().flatten();
    access["metadata"]["generation"].is_i64()
        && status["observedGeneration"] == access["metadata"]["generation"]
        && !matches!(reason(access), "" | PENDING)
        && clusters.all(|cluster| cluster["reason"] != PENDING)
}

/// Whether the reason is transient: a recent label or join has not reached every component yet.
fn may_pass(access: &Value) -> bool {
    let clusters = access["status"]["clusters"].as_array().into_iter().flatten();
    let reasons = clusters.filter_map(|cluster| cluster["reason"].as_str());
    reasons.chain([reason(access)]).any(|reason| PASSING_REASONS.contains(&reason))
}

/// The reason of condition `Ready`.
fn reason(access: &Value) -> &str {
    condition(access, "Ready").and_then(|ready| ready["reason"].as_str()).unwrap_or_default()
}

/// One line for each cluster without the grant.
fn ungranted(access: &Value) -> Vec<String> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let line = |name: &str, of: &Value| {
        let (reason, message) = (text(of, "reason"), text(of, "message"));
        if message.is_empty() { format!("{name}: {reason}") } else { format!("{name}: {reason}: {message}") }
    };
    let clusters = access["status"]["clusters"].as_array().into_iter().flatten();
    let lines: Vec<_> = clusters
        .filter(|cluster| cluster["status"] != "True")
        .map(|cluster| line(&text(cluster, "name"), cluster))
        .collect();
    let ready = condition(access, "Ready").filter(|ready| ready["status"] != "True");
    match lines.is_empty() {
        true => ready.into_iter().map(|ready| line("the grant", ready)).collect(),
        false => lines,
    }
}

/// Maximum length of the readable part of a name.
const READABLE: usize = 80;
const MEMBERS_TRIED: usize = 3;
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// The leader retries within this time.
const PASSING: Duration = Duration::from_secs(4);
const PASSING_REASONS: [&str; 5] =
    ["Forbidden", "HostFailed", "MemberUnreachable", "NoneSelected", "RoleNotBindable"];
/// The reason that the leader sets while work is outstanding.
const PENDING: &str = "Pending";
const WAIT_TIMEOUT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests;
