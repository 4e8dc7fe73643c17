//! Defines the verdicts of an explanation, and the review that each hop receives.

use serde_json::{Value, json};

use crate::access::kinds::ResourceAttributes;
use crate::cli::ExplainArgs;
use crate::error::Explain;
use crate::exit::ExitStatus;
use crate::server_text::escaped;
use crate::suggestion;

/// The verdict of a hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Yes(String),
    /// The reason, and the command that changes the verdict.
    No(String, String),
    /// The hop could not be queried: the reason, and a hint.
    Unknown(String, Option<String>),
}

impl Verdict {
    pub(super) fn yes(why: String) -> Self {
        Self::Yes(why)
    }

    pub(super) fn no(why: String, fix: String) -> Self {
        Self::No(why, fix)
    }
}

/// The hops in their order.
#[derive(Debug, Default)]
pub(super) struct Hops(Vec<(&'static str, Verdict)>);

impl Hops {
    pub(super) fn add(&mut self, hop: &'static str, verdict: Verdict) {
        self.0.push((hop, verdict));
    }

    pub(super) fn all_yes(&self) -> bool {
        self.0.iter().all(|(_, verdict)| matches!(verdict, Verdict::Yes(_)))
    }

    /// Prints a line for each hop, then a line for each command that would help.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        let width = self.0.iter().map(|(hop, _)| hop.len()).max().unwrap_or_default();
        for (hop, verdict) in &self.0 {
            let (word, why, fix) = match verdict {
                Verdict::Yes(why) => ("yes", why, None),
                Verdict::No(why, fix) => ("no", why, Some(fix)),
                Verdict::Unknown(why, help) => ("?", why, help.as_ref()),
            };
            text.push_str(&format!("{hop:width$}  {word:3}  {}\n", escaped(why)));
            if let Some(fix) = fix {
                text.push_str(&format!("{:width$}       fix: {}\n", "", escaped(fix)));
            }
        }
        text
    }
}

/// The verb on `clusters/proxy` that belongs to a verb of kubectl or RBAC.
pub(super) fn proxy_verb(verb: &str) -> &'static str {
    match verb {
        "get" | "list" | "watch" | "logs" | "describe" | "top" => "get",
        "update" | "replace" => "update",
        "patch" | "apply" | "edit" | "label" | "annotate" | "scale" => "patch",
        "delete" | "deletecollection" => "delete",
        // Also exec, attach and port-forward: an upgrade needs create.
        _ => "create",
    }
}

/// An error for a word that is neither a verb of RBAC nor a known verb of kubectl.
pub(super) fn unknown_verb(verb: &str) -> Option<UnknownVerb> {
    (!VERBS.contains(&verb)).then(|| UnknownVerb(verb.to_owned()))
}

#[derive(Debug, thiserror::Error)]
#[error("unknown verb: {0:?}")]
pub(super) struct UnknownVerb(String);

impl Explain for UnknownVerb {
    fn hint(&self) -> Option<String> {
        Some(match suggestion::nearest(&self.0, VERBS.iter().copied()) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => format!("the verbs are {}", VERBS.join(", ")),
        })
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}

/// The verbs of RBAC, then those of kubectl.
#[rustfmt::skip]
const VERBS: &[&str] = &[
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "approve", "attest", "bind",
    "escalate", "impersonate", "sign", "use",
    "annotate", "apply", "attach", "cp", "describe", "edit", "exec", "label", "logs", "port-forward", "replace",
    "scale", "top",
];

/// The attributes for the member's authorizer; a verb of kubectl becomes a verb of RBAC.
pub(super) fn attributes(arguments: &ExplainArgs, resource: &ResourceAttributes) -> Value {
    let ExplainArgs { namespace, verb, resource: typed, object, .. } = arguments;
    if typed.starts_with('/') {
        return json!({"nonResourceAttributes": {"path": typed, "verb": verb}});
    }
    let mut resource = resource.clone();
    let object = object.as_ref().or(resource.object.as_ref());
    let (verb, subresource) = match verb.as_str() {
        "logs" => ("get", Some("log")),
        "exec" | "cp" => ("create", Some("exec")),
        "attach" => ("create", Some("attach")),
        "port-forward" => ("create", Some("portforward")),
        "describe" => ("get", None),
        "apply" | "edit" | "label" | "annotate" => ("patch", None),
        "scale" => ("patch", Some("scale")),
        "replace" => ("update", None),
        "top" => {
            resource.group = METRICS.to_owned();
            (if object.is_some() { "get" } else { "list" }, None)
        }
        // `kubectl get` without a name is a list.
        "get" if object.is_none() && resource.subresource.is_none() => ("list", None),
        verb => (verb, None),
    };
    if let Some(subresource) = subresource {
        resource.subresource.get_or_insert_with(|| subresource.to_owned());
    }
    let mut attributes = json!({"verb": verb, "group": resource.group, "resource": resource.resource});
    if let Some(subresource) = &resource.subresource {
        attributes["subresource"] = subresource.as_str().into();
    }
    if let Some(name) = object {
        attributes["name"] = name.as_str().into();
    }
    if let Some(namespace) = namespace.as_ref().filter(|_| resource.namespaced) {
        attributes["namespace"] = namespace.as_str().into();
    }
    json!({"resourceAttributes": attributes})
}

const METRICS: &str = "metrics.k8s.io";

/// A review of the caller's own rights.
pub(super) fn self_review(spec: &Value) -> Value {
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec})
}

/// `user "jane"`
pub(super) fn right_in_words(right: &Value) -> String {
    let text = |field: &str| right[field].as_str().unwrap_or_default();
    let what = match text("resource") {
        "users" => "user",
        "groups" => "group",
        "uids" => "uid",
        "serviceaccounts" => return format!("service account \"{}:{}\"", text("namespace"), text("name")),
        _ => return format!("extra {:?} of {:?}", text("name"), text("subresource")),
    };
    format!("{what} {:?}", text("name"))
}

/// Appends the authorizer's reason if there is one.
pub(super) fn with_reason(text: &str, reason: &str) -> String {
    if reason.is_empty() { text.to_owned() } else { format!("{text}: {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(verb: &str, resource: &str, object: Option<&str>, namespace: Option<&str>) -> Value {
        let arguments = ExplainArgs {
            namespace: namespace.map(str::to_owned),
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            object: object.map(str::to_owned),
            ..ExplainArgs::default()
        };
        let (name, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let resource = ResourceAttributes {
            group: String::new(),
            resource: name.to_owned(),
            subresource: Some(subresource.to_owned()).filter(|text| !text.is_empty()),
            namespaced: name != "nodes",
            root: None,
            object: None,
        };
        attributes(&arguments, &resource)
    }

    #[test]
    fn kubectl_verbs_map_to_rbac_verbs() {
        assert_eq!(
            asked("get", "pods", None, Some("shop")),
            json!({"resourceAttributes": {"verb": "list", "group": "", "resource": "pods", "namespace": "shop"}})
        );
        assert_eq!(asked("get", "pods", Some("web"), None)["resourceAttributes"]["verb"], "get");
        let exec = asked("exec", "pods", Some("web"), Some("shop"));
        assert_eq!(exec["resourceAttributes"]["subresource"], "exec");
        assert_eq!(exec["resourceAttributes"]["verb"], "create");
        assert_eq!(asked("get", "pods/log", Some("web"), None)["resourceAttributes"]["subresource"], "log");
        assert_eq!(asked("list", "nodes", None, Some("shop"))["resourceAttributes"].get("namespace"), None);
        let top = asked("top", "nodes", None, None);
        assert_eq!(
            (&top["resourceAttributes"]["verb"], &top["resourceAttributes"]["group"]),
            (&json!("list"), &json!(METRICS))
        );
        assert_eq!(asked("edit", "pods", Some("web"), None)["resourceAttributes"]["verb"], "patch");
        assert_eq!(
            asked("get", "/healthz", None, None),
            json!({"nonResourceAttributes": {"path": "/healthz", "verb": "get"}})
        );
    }

    #[test]
    fn unknown_verb_error_suggests_the_nearest() {
        let error = unknown_verb("lits").unwrap();
        assert_eq!(
            (error.to_string().as_str(), error.hint().as_deref()),
            ("unknown verb: \"lits\"", Some("did you mean list?"))
        );
        assert!(unknown_verb("zzz").unwrap().hint().unwrap().contains("port-forward"));
        assert!(["get", "exec", "impersonate", "top"].iter().all(|verb| unknown_verb(verb).is_none()));
    }

    #[test]
    fn host_verb_comes_from_the_http_method() {
        for (verb, proxy) in [
            ("list", "get"),
            ("logs", "get"),
            ("exec", "create"),
            ("apply", "patch"),
            ("deletecollection", "delete"),
        ] {
            assert_eq!(proxy_verb(verb), proxy);
        }
    }

    #[test]
    fn each_hop_prints_a_line_and_each_denial_a_command() {
        let mut hops = Hops::default();
        hops.add("host", Verdict::yes("jane".to_owned()));
        assert!(hops.all_yes());
        hops.add("member authorization", Verdict::no("nothing\nallows it".to_owned(), "grant".to_owned()));
        assert!(!hops.all_yes());
        assert_eq!(
            hops.table(),
            "host                  yes  jane\n\
             member authorization  no   nothing\\nallows it\n\
             \x20                          fix: grant\n"
        );
    }
}
