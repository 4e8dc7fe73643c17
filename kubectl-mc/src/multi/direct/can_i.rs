//! Runs `kubectl auth can-i VERB TYPE`, `TYPE/NAME` or `URL` by one SelfSubjectAccessReview on each cluster
//! (kubectl:pkg/cmd/auth/cani.go).

use std::ops::ControlFlow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;

use super::discovery::{self, ApiResource, Store};
use super::kubectl_flags::{Grammar, Words};
use super::member::Member;
use super::member_deadline::MemberDeadline;
use super::member_types;
use super::task::{Ended, Task};
use super::text::Text;
use crate::argv::Scanned;
use crate::cluster::client::ClientError;
use crate::cluster::hop::Hop;
use crate::multi::fault::Fault;
use crate::multi::ordered_output::Sink;
use crate::server_text::ServerText;

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CanIPlan {
    verb: String,
    object: Object,
    /// `--namespace`; `None` means that of the context.
    namespace: Option<String>,
    all_namespaces: bool,
    is_quiet: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Object {
    Url(String),
    Resource { word: String, name: String, subresource: String },
}

impl CanIPlan {
    /// The plan for these arguments, if kubectl would run the command without an error of its own.
    pub(super) fn parse(scanned: &Scanned) -> Option<Self> {
        let words = Words::read_two(scanned, "auth", &["can-i"], &GRAMMAR)?;
        let [verb, object] = words.arguments.as_slice() else { return None };
        let subresource = words.text("subresource").unwrap_or_default();
        // kubectl prints a warning for other verbs.
        let (verbs, object) = match object.starts_with('/') {
            true if subresource.is_empty() => (URL_VERBS, Object::Url(object.clone())),
            true => return None,
            false => {
                let (word, name) = object.split_once('/').unwrap_or((object, ""));
                let (word, name) = (word.to_owned(), name.to_owned());
                (RESOURCE_VERBS, Object::Resource { word, name, subresource })
            }
        };
        let all_namespaces = words.is_on("all-namespaces");
        let is_quiet = words.is_on("quiet");
        let plan =
            Self { verb: verb.clone(), object, namespace: words.text("namespace"), all_namespaces, is_quiet };
        verbs.contains(&verb.as_str()).then_some(plan)
    }
}

/// The output for one member.
#[derive(Debug, Default)]
struct Report {
    /// Whole lines for standard output.
    lines: String,
    /// Lines for standard error, printed first.
    remarks: Vec<String>,
    is_allowed: bool,
}

pub(super) async fn run(
    plan: &CanIPlan,
    task: &Task<'_>,
    text: &mut dyn Text,
) -> Result<Vec<Ended>, ClientError> {
    let members = task.members(0, MemberDeadline::whole).await?;
    let store = Arc::new(Store::open(task.env));
    let ask = |member: Member, sender: Sender<Report>| {
        let (plan, store) = (plan.clone(), Arc::clone(&store));
        async move {
            let report = report(&plan, &member, &store).await?;
            let result = if report.is_allowed { Ok(()) } else { Err(Fault::NegativeAnswer) };
            // The receiver is gone when standard output is closed.
            let _ = sender.send(report).await;
            result
        }
    };
    let mut sink = Reports { task, text };
    Ok(task.run_each(members, ask, &mut sink).await)
}

/// Prints reports in the order of the members.
struct Reports<'a, 't> {
    task: &'a Task<'a>,
    text: &'t mut dyn Text,
}

impl Sink<Report> for Reports<'_, '_> {
    fn take(&mut self, place: usize, report: Report) -> ControlFlow<()> {
        let Some(cluster) = self.task.clusters.get(place) else { return ControlFlow::Continue(()) };
        for remark in &report.remarks {
            self.text.remark(cluster, remark);
        }
        self.text.out(cluster, report.lines.as_bytes())
    }

    fn end(&mut self, place: usize) {
        if let Some(cluster) = self.task.clusters.get(place) {
            self.text.end(cluster);
        }
    }
}

async fn report(plan: &CanIPlan, member: &Member, store: &Store) -> Result<Report, Fault> {
    let mut report = Report::default();
    let spec = match &plan.object {
        Object::Url(path) => json!({"nonResourceAttributes": {"verb": plan.verb, "path": path}}),
        Object::Resource { word, name, subresource } => {
            let found = match word.as_str() {
                "*" => None,
                // kubectl looks the type up in lower case.
                word => resource(&word.to_lowercase(), member, store).await?,
            };
            report.remarks = match &found {
                Some(found) if !found.namespaced && !plan.all_namespaces => {
                    not_in_namespaces(&found.plural, &found.group)
                }
                None if !NO_TYPES.contains(&word.as_str()) => no_such_type(&word.to_lowercase()),
                _ => Vec::new(),
            };
            let (group, resource) =
                found.map_or_else(|| (String::new(), word.clone()), |found| (found.group, found.plural));
            let namespace = match plan.all_namespaces {
                true => "",
                false => member.namespace(plan.namespace.as_deref()),
            };
            json!({"resourceAttributes": {
                "verb": plan.verb, "group": group, "resource": resource, "subresource": subresource, "name": name,
                "namespace": namespace,
            }})
        }
    };
    let kind =
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec});
    let Answer { status } = ask(member, &kind).await?;
    report.is_allowed = status.allowed;
    if !plan.is_quiet {
        report.lines = status.line();
    }
    Ok(report)
}

async fn resource(word: &str, member: &Member, store: &Store) -> Result<Option<ApiResource>, Fault> {
    match discovery::everywhere(word) {
        Some(resource) => Ok(Some(resource)),
        None => member_types::resolve(word, member, store).await,
    }
}

/// Sends the review. If the host refuses it, kubectl takes over, and names a command that needs no review.
async fn ask(member: &Member, review: &Value) -> Result<Answer, Fault> {
    member.review(REVIEWS, review).await.map_err(|failure| match failure {
        Fault::Refused(refusal) if refusal.hop == Hop::HostAuthorization => Fault::said(refusal.to_string()),
        failure => failure,
    })
}

#[derive(Debug, Deserialize)]
struct Answer {
    status: Status,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    /// An answer without it is not valid.
    allowed: bool,
    #[serde(default)]
    reason: ServerText,
    #[serde(default)]
    evaluation_error: ServerText,
}

impl Status {
    fn line(&self) -> String {
        if self.allowed {
            return "yes\n".to_owned();
        }
        let mut line = "no".to_owned();
        for text in [&self.reason, &self.evaluation_error].into_iter().filter(|text| !text.is_empty()) {
            line.push_str(&format!(" - {text}"));
        }
        line.push('\n');
        line
    }
}

/// kubectl's warning, whose text ends in its own line break.
fn not_in_namespaces(plural: &str, group: &str) -> Vec<String> {
    let group = if group.is_empty() { String::new() } else { format!(" in group '{group}'") };
    vec![format!("Warning: resource '{plural}' is not namespace scoped{group}"), String::new()]
}

fn no_such_type(word: &str) -> Vec<String> {
    let (resource, group) = word.split_once('.').unwrap_or((word, ""));
    let group = if group.is_empty() { String::new() } else { format!(" in group '{group}'") };
    vec![format!("Warning: the server doesn't have a resource type '{resource}'{group}"), String::new()]
}

const GRAMMAR: Grammar<'_> = Grammar { values: &["subresource"], switches: &["all-namespaces", "quiet"] };

/// Resources of RBAC rules that are not API types.
const NO_TYPES: &[&str] = &["*", "users", "groups"];

/// The verbs that all supported versions of kubectl accept.
#[rustfmt::skip]
const RESOURCE_VERBS: &[&str] = &[
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "use", "bind", "impersonate",
    "*", "approve", "sign", "escalate", "attest",
];
const URL_VERBS: &[&str] = &["get", "put", "post", "head", "options", "delete", "patch", "*"];

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argv;

    fn plan(line: &str) -> Option<CanIPlan> {
        CanIPlan::parse(&argv::scan(line.split(' ').map(Into::into).collect()))
    }

    #[test]
    fn can_i_questions_are_parsed() {
        for line in [
            "auth can-i get pods",
            "-n x auth can-i create deployments.apps/web --subresource=scale",
            "auth can-i get /healthz",
            "auth can-i * * -A -q",
        ] {
            assert!(plan(line).is_some(), "{line}");
        }
    }

    #[test]
    fn other_questions_are_left_to_kubectl() {
        for line in [
            "auth can-i",
            "auth can-i get",
            "auth can-i get pods web",
            "auth can-i --list",
            "auth can-i get pods --no-headers",
            "auth can-i fetch pods",
            "auth can-i list /healthz",
            "auth can-i get /healthz --subresource=x",
            "auth -A can-i get pods",
            "auth whoami",
        ] {
            assert!(plan(line).is_none(), "{line}");
        }
    }

    #[test]
    fn denial_includes_the_reason() {
        let status = |value| serde_json::from_value::<Status>(value).unwrap().line();
        assert_eq!(status(json!({"allowed": true, "reason": "RBAC"})), "yes\n");
        assert_eq!(status(json!({"allowed": false})), "no\n");
        assert_eq!(
            status(json!({"allowed": false, "reason": "a", "evaluationError": "b\u{1b}"})),
            "no - a - b^[\n"
        );
    }
}
