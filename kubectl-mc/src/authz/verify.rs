//! Implements `kubectl mc authz verify`: uses SubjectAccessReviews to query the host for the rights
//! of each cluster's agent, and compares them with the rights that an agent needs. The reviews go
//! through every authorizer of the host, including the webhook. The admission policies are compared
//! with those that `apply` writes, and some writes are tried by dry runs.

use std::collections::{BTreeMap, HashMap, HashSet};

use http::StatusCode;
use kubectl_mc_api::ownership::matrix::{Cell, Target, cells};
use kubectl_mc_api::ownership::{Decision, Layout, decide, subject};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::arguments::{clusters, layout};
use super::compare::{self, Fault};
use super::requests::{REVIEWS, registered, review_of};
use super::{admission, dry_run, keeper, objects, policies};
use crate::cli::AuthzVerifyArgs;
use crate::cluster::connection::{Connection, ConnectionError};
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::progress::Line;
use crate::server_text::{ServerText, escaped};

pub(super) async fn run(
    arguments: &AuthzVerifyArgs,
    host: &Connection,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let layout = layout(arguments.hub.layout())?;
    let clusters = clusters(&arguments.hub, host).await?;
    // Without the webhook, RBAC grants a create for every name, and the policies check the name.
    let judges_names = !arguments.hub.without_webhook;
    let mut findings = 0;
    findings += of_policies(&layout, host, printer).await?;
    if !arguments.hub.without_admission_webhook {
        findings += of_webhooks(host, printer).await?;
    }
    findings += of_keeper(&layout, host, printer).await?;
    let progress = Line::draw(printer, format!("0 of {} clusters", clusters.len()));
    for (done, cluster) in clusters.iter().enumerate() {
        let asked = format!("{done} of {} clusters, asking about {}", clusters.len(), escaped(cluster));
        progress.bar().set_message(asked);
        let other = clusters.iter().find(|other| *other != cluster).map_or(OTHER, String::as_str);
        findings +=
            of_subject(&subject::user(cluster), &layout, (cluster, other), judges_names, host, printer)
                .await?;
    }
    if let Some(cluster) = clusters.first() {
        findings +=
            of_subject(subject::GENERATOR, &layout, (cluster, OTHER), judges_names, host, printer).await?;
    }
    if let Some(cluster) = clusters.first() {
        progress.bar().set_message("trying writes by dry runs".to_owned());
        let other = clusters.get(1).map_or(OTHER, String::as_str);
        findings += dry_run::check(&layout, (cluster, other), host, printer).await?;
    }
    drop(progress);
    if layout.agents_list_clusters {
        printer.note_line("note: agents may list and watch the Cluster objects of all clusters, by --agents-list-clusters=Allow");
    }
    if findings == 0 {
        if clusters.is_empty() {
            return Err(Failure::new("no rights were verified: the host has no Clusters of Karmada")
                .with_hint("name clusters to verify the rights that their agents would have"));
        }
        printer.out_line(&format!("the agents of {} clusters have exactly what they need", clusters.len()));
        return Ok(ExitStatus::Success);
    }
    Ok(ExitStatus::Failed)
}

/// Prints the faults of the policies; returns their number.
async fn of_policies(layout: &Layout, host: &Connection, printer: &Printer) -> Result<usize, Failure> {
    let mut lines = Vec::new();
    for Fault { object, is_absent, reason, .. } in compare::faults(host, &policies::judging(layout)).await? {
        lines.push(match is_absent {
            true => format!("too wide: names of new objects are not checked: no {object}"),
            false => format!("too wide: new objects are judged by another policy: {object}: {reason}"),
        });
    }
    if policies::stamps(objects::version(host).await?) {
        let faults = compare::faults(host, &policies::stamp()).await?;
        lines.extend(faults.into_iter().map(|Fault { object, reason, .. }| {
            format!("missing: new objects get no owner: {object}: {reason}")
        }));
    }
    lines.iter().for_each(|line| printer.out_line(line));
    Ok(lines.len())
}

/// Prints the fault of the policy on the sidecar's account, if the account may maintain the RBAC of
/// agents; returns the number of lines.
async fn of_keeper(layout: &Layout, host: &Connection, printer: &Printer) -> Result<usize, Failure> {
    let rights = format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{}", keeper::NAME);
    match host.get(&rights).await {
        Ok(Some(_)) => {}
        Ok(None) => return Ok(0),
        Err(error @ ConnectionError::Refused { status: StatusCode::FORBIDDEN, .. }) => {
            printer.out_line(&format!("not checked: the policy on the sidecar's account: {error}"));
            return Ok(1);
        }
        Err(error) => return Err(error.into()),
    }
    let faults = compare::faults(host, &keeper::policy(layout)).await?;
    for Fault { object, reason, .. } in &faults {
        printer
            .out_line(&format!("too wide: the sidecar's account may write every role: {object}: {reason}"));
    }
    Ok(faults.len())
}

/// Prints the faults of the admission webhooks' registration; returns their number.
async fn of_webhooks(host: &Connection, printer: &Printer) -> Result<usize, Failure> {
    let version = objects::version(host).await?;
    let bundle = objects::ca_bundle(host).await?;
    let mut findings = 0;
    for (kind, name, lost) in [
        (
            "validatingwebhookconfigurations",
            admission::ENROLLMENT,
            "too wide: certificates of agents are not judged",
        ),
        ("mutatingwebhookconfigurations", admission::OWNER, "missing: new objects get no owner"),
    ] {
        if name == admission::OWNER && policies::stamps(version) {
            continue;
        }
        let fault = match registered(host, kind, name).await? {
            None => Some("it is not there"),
            Some(found) => admission::fault(&found, bundle.as_deref()),
        };
        if let Some(fault) = fault {
            findings += 1;
            printer.out_line(&format!("{lost}: {kind}/{name}: {fault}"));
        }
    }
    Ok(findings)
}

/// Prints the differences, a line for each object and target; returns their number.
async fn of_subject(
    user: &str,
    layout: &Layout,
    (cluster, other): (&str, &str),
    judges_names: bool,
    host: &Connection,
    printer: &Printer,
) -> Result<usize, Failure> {
    let mut lines: BTreeMap<(&str, String), Found> = BTreeMap::new();
    for (cell, Answer { is_allowed, reason }) in
        ask(user, layout, (cluster, other), judges_names, host).await?
    {
        let is_needed = decide(layout, user, &[subject::GROUP], &cell.attributes()) == Decision::NoOpinion;
        let fault = match (is_needed, is_allowed) {
            (false, true) => "too wide",
            // The rights of the generator are Karmada's own.
            (true, false) if user != subject::GENERATOR => "missing",
            _ => continue,
        };
        let found = lines.entry((fault, describe(&cell))).or_default();
        if !found.verbs.contains(&cell.verb) {
            found.verbs.push(cell.verb);
        }
        found.reason = reason;
    }
    for ((fault, object), Found { verbs, reason }) in &lines {
        let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        printer.out_line(&format!("{fault}: {user}: {} {object}{reason}", verbs.join(",")));
    }
    Ok(lines.len())
}

#[derive(Default)]
struct Found {
    verbs: Vec<&'static str>,
    reason: String,
}

/// Whether a client can send such a request, and the authorizers check its name.
fn is_real(cell: &Cell, judges_names: bool) -> bool {
    match cell.verb {
        "get" | "update" | "patch" | "delete" => !cell.name.is_empty(),
        "create" => judges_names || cell.name.is_empty(),
        _ => true,
    }
}

#[derive(Clone)]
struct Answer {
    is_allowed: bool,
    reason: String,
}

/// The host's responses, in the order of the matrix. Equal reviews are sent once.
async fn ask(
    user: &str,
    layout: &Layout,
    (cluster, other): (&str, &str),
    judges_names: bool,
    host: &Connection,
) -> Result<Vec<(Cell, Answer)>, Failure> {
    let mut cells = cells(layout, cluster, other, PARTS);
    cells.retain(|cell| is_real(cell, judges_names));
    let reviews: Vec<_> = cells.iter().map(|cell| review(user, cell)).collect();
    let mut seen = HashSet::new();
    let distinct: Vec<_> = reviews.iter().filter(|review| seen.insert(*review)).collect();
    let mut answers = HashMap::with_capacity(distinct.len());
    for part in distinct.chunks(CONCURRENT) {
        let mut asked = JoinSet::new();
        for &review in part {
            let (host, review) = (host.clone(), review.clone());
            asked.spawn(async move {
                let answer = host.create(REVIEWS, &review).await?;
                Ok::<_, ConnectionError>((review, Answer::of(&answer["status"])))
            });
        }
        while let Some(answer) = asked.join_next().await {
            // A review whose task has died has no answer, which is handled below.
            let Ok(answer) = answer else { continue };
            if let (review, Some(answer)) = answer? {
                answers.insert(review, answer);
            }
        }
    }
    let answers = cells.into_iter().zip(&reviews).map(|(cell, review)| match answers.get(review) {
        Some(answer) => Ok((cell, answer.clone())),
        None => Err(Failure::new(format!(
            "cannot verify the rights of agents: the host did not answer whether {user} may {} {}",
            cell.verb,
            describe(&cell)
        ))
        .with_hint("run the same command again")),
    });
    answers.collect()
}

impl Answer {
    fn of(status: &Value) -> Option<Self> {
        let text = ["reason", "evaluationError"].iter().find_map(|key| status[*key].as_str());
        Some(Self {
            is_allowed: status["allowed"].as_bool()?,
            reason: text.map(|text| ServerText::from(text.to_owned()).to_string()).unwrap_or_default(),
        })
    }
}

fn review(user: &str, cell: &Cell) -> Value {
    let mut attributes = json!({
        "verb": cell.verb, "group": cell.group, "version": "*", "resource": cell.resource,
        "subresource": cell.subresource, "namespace": cell.namespace, "name": cell.name,
    });
    // Hosts before Kubernetes 1.32 do not know the field and drop it.
    if ["list", "watch"].contains(&cell.verb) && !cell.name.is_empty() {
        attributes["fieldSelector"] = json!({"requirements": [
            {"key": "metadata.name", "operator": "In", "values": [cell.name]},
        ]});
    }
    review_of(user, &attributes)
}

/// `clusters.cluster.karmada.io m2 (other's)`
fn describe(cell: &Cell) -> String {
    let place = match (cell.namespace.as_str(), cell.name.as_str()) {
        ("", "") => "over all".to_owned(),
        (namespace, "") => format!("in {namespace}"),
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    let target = match cell.target {
        Target::None | Target::All => String::new(),
        target => format!(" ({})", target.word()),
    };
    format!("{} {place}{target}", cell.kind())
}

/// The subresources of the kinds.
const PARTS: &[&str] = &["", "status", "finalizers"];
/// Number of parallel reviews.
const CONCURRENT: usize = 24;
/// A placeholder if there is no other cluster.
const OTHER: &str = "another-cluster";
