//! Defines the verdicts of an explanation, and the review that each hop receives.

use serde_json::{Value, json};

use super::needs::{self, KubectlCommand, Need, NeededObject};
use crate::access::kinds::ResourceAttributes;
use crate::error::Failure;
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

/// The verdicts of some hops, in their order.
pub(super) type Verdicts = Vec<(&'static str, Verdict)>;

/// The hops in their order.
#[derive(Debug, Default)]
pub(super) struct Hops(Verdicts);

impl Hops {
    pub(super) fn add(&mut self, hop: &'static str, verdict: Verdict) {
        self.0.push((hop, verdict));
    }

    /// Adds the verdicts of the member, which may not have answered.
    pub(super) fn add_member(&mut self, answered: Result<Verdicts, Failure>) {
        match answered {
            Ok(verdicts) => self.0.extend(verdicts),
            Err(failure) => {
                let why = format!("cannot query the member: {failure}");
                for hop in ["member impersonation", "member authorization"] {
                    let hint = failure.hint.as_ref().map(ToString::to_string);
                    self.add(hop, Verdict::Unknown(why.clone(), hint));
                }
            }
        }
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

/// The verb on `clusters/proxy` that belongs to a right on the member.
pub(super) fn proxy_verb(attributes: &Value) -> &'static str {
    let right = match &attributes["nonResourceAttributes"] {
        Value::Null => &attributes["resourceAttributes"],
        url => url,
    };
    let text = |field: &str| right[field].as_str().unwrap_or_default();
    match (text("verb"), text("subresource")) {
        // An upgrade needs create.
        (_, "exec" | "attach" | "portforward") => "create",
        ("get" | "list" | "watch", _) => "get",
        ("update", _) => "update",
        ("patch", _) => "patch",
        ("delete" | "deletecollection", _) => "delete",
        _ => "create",
    }
}

/// An error for a word that is neither a verb of RBAC nor a known command of kubectl.
pub(super) fn unknown_verb(verb: &str) -> Option<Failure> {
    let (first, second) = verb.split_once(' ').unwrap_or((verb, ""));
    let seconds = needs::second_words(first);
    let is_known = VERBS.contains(&first) && (seconds.is_empty() || seconds.contains(&second));
    if is_known {
        return None;
    }
    let (before, typed, known) = match seconds {
        [] => (String::new(), first, VERBS),
        seconds => (format!("{first} "), second, seconds),
    };
    let hint = match suggestion::nearest(typed, known.iter().copied()) {
        Some(nearest) => format!("did you mean {before}{nearest}?"),
        None if before.is_empty() => format!("the verbs are {}", known.join(", ")),
        None => format!("{before}takes {}", known.join(", ")),
    };
    Some(Failure::usage(format!("unknown verb: {verb:?}")).with_hint(hint))
}

/// The verbs of RBAC, then those of kubectl.
#[rustfmt::skip]
const VERBS: &[&str] = &[
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "approve", "attest", "bind",
    "escalate", "impersonate", "sign", "use",
    "annotate", "apply", "attach", "autoscale", "certificate", "cordon", "cp", "debug", "describe", "diff", "drain",
    "edit", "exec", "expose", "label", "logs", "port-forward", "replace", "rollout", "run", "scale", "set", "taint",
    "top", "uncordon", "wait",
];

/// The attributes for the member's authorizer of each right that the command needs.
pub(super) fn attributes(
    command: &KubectlCommand,
    namespace: Option<&str>,
    resource: &ResourceAttributes,
) -> Vec<Value> {
    let KubectlCommand { verb, resource: typed, object, .. } = command;
    if typed.starts_with('/') {
        return vec![json!({"nonResourceAttributes": {"path": typed, "verb": verb}})];
    }
    let mut resource = resource.clone();
    if verb == "top" {
        resource.group = METRICS.to_owned();
    }
    // A subresource is part of the typed resource; its object is another word.
    let object = resource.object.as_ref().or(object.as_ref());
    let place = |namespaced: bool| namespace.filter(|_| namespaced);
    let right =
        |verb: &str, group: &str, resource: &str, subresource: &str, namespaced, name: Option<&String>| {
            let mut right = json!({"verb": verb, "group": group, "resource": resource});
            let rest = [
                ("subresource", Some(subresource)),
                ("name", name.map(String::as_str)),
                ("namespace", place(namespaced)),
            ];
            for (field, text) in rest {
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    right[field] = text.into();
                }
            }
            json!({"resourceAttributes": right})
        };
    let typed_subresource = resource.subresource.as_deref().unwrap_or_default();
    let given = |verb: &str, subresource: &str| {
        let subresource = if typed_subresource.is_empty() { subresource } else { typed_subresource };
        right(verb, &resource.group, &resource.resource, subresource, resource.namespaced, object)
    };
    let needs = needs::of(verb, &resource.resource, object.is_some());
    let Some(needs) = needs else {
        // `kubectl get` without a name is a list.
        let is_list = verb == "get" && object.is_none() && typed_subresource.is_empty();
        return vec![given(if is_list { "list" } else { verb }, "")];
    };
    let is_pod = (resource.group.as_str(), resource.resource.as_str()) == ("", "pods");
    let of_need = |need: &Need| match need.object {
        NeededObject::Given => given(need.verb, need.subresource),
        NeededObject::Pod => right(need.verb, "", "pods", need.subresource, true, object.filter(|_| is_pod)),
        NeededObject::All(group, resource) => right(need.verb, group, resource, need.subresource, true, None),
    };
    needs.iter().map(of_need).collect()
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

/// `create pods/exec`
pub(super) fn attributes_in_words(attributes: &Value) -> String {
    let right = &attributes["resourceAttributes"];
    let text = |field: &str| right[field].as_str().unwrap_or_default();
    let group = if text("group").is_empty() { String::new() } else { format!(".{}", text("group")) };
    let sub =
        if text("subresource").is_empty() { String::new() } else { format!("/{}", text("subresource")) };
    format!("{} {}{group}{sub}", text("verb"), text("resource"))
}

/// Appends the authorizer's reason if there is one.
pub(super) fn with_reason(text: &str, reason: &str) -> String {
    if reason.is_empty() { text.to_owned() } else { format!("{text}: {reason}") }
}

/// The path of reviews of the own rights.
pub(super) const SELF_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// The path of reviews of another user's rights.
pub(super) const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(verb: &str, resource: &str, object: Option<&str>, namespace: Option<&str>) -> Vec<Value> {
        let command = KubectlCommand {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            object: object.map(str::to_owned),
            namespace: None,
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
        attributes(&command, namespace, &resource)
    }

    #[test]
    fn kubectl_verbs_map_to_rbac_verbs() {
        assert_eq!(
            asked("get", "pods", None, Some("shop")),
            [
                json!({"resourceAttributes": {"verb": "list", "group": "", "resource": "pods", "namespace": "shop"}})
            ]
        );
        assert_eq!(asked("get", "pods", Some("web"), None)[0]["resourceAttributes"]["verb"], "get");
        let pod = |verb: &str, more: Value| {
            let mut right =
                json!({"verb": verb, "group": "", "resource": "pods", "name": "web", "namespace": "shop"});
            right.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"resourceAttributes": right})
        };
        assert_eq!(
            asked("exec", "pods", Some("web"), Some("shop")),
            [pod("get", json!({})), pod("create", json!({"subresource": "exec"}))]
        );
        // The pod of a Deployment can have any name.
        let through = asked("logs", "deployments", Some("web"), Some("shop"));
        assert_eq!(through.len(), 4);
        assert_eq!(
            through[3],
            json!({"resourceAttributes": {"verb": "get", "group": "", "resource": "pods", "subresource": "log", "namespace": "shop"}})
        );
        assert_eq!(
            asked("get", "pods/log", Some("web"), None)[0]["resourceAttributes"]["subresource"],
            "log"
        );
        assert_eq!(
            asked("list", "nodes", None, Some("shop"))[0]["resourceAttributes"].get("namespace"),
            None
        );
        let top = &asked("top", "nodes", None, None)[0]["resourceAttributes"];
        assert_eq!((&top["verb"], &top["group"]), (&json!("list"), &json!(METRICS)));
        assert_eq!(asked("edit", "pods", Some("web"), None)[1]["resourceAttributes"]["verb"], "patch");
        assert_eq!(
            asked("get", "/healthz", None, None),
            [json!({"nonResourceAttributes": {"path": "/healthz", "verb": "get"}})]
        );
    }

    #[test]
    fn unknown_verb_error_suggests_the_nearest() {
        let error = unknown_verb("lits").unwrap();
        assert_eq!(
            (error.to_string().as_str(), error.hint),
            ("unknown verb: \"lits\"", Some("did you mean list?".into()))
        );
        assert!(unknown_verb("zzz").unwrap().hint.unwrap().to_string().contains("port-forward"));
        let hint = |verb: &str| unknown_verb(verb).unwrap().hint.unwrap().to_string();
        assert_eq!(hint("rollout retsart"), "did you mean rollout restart?");
        assert!(hint("rollout ").starts_with("rollout takes history, pause"));
        let known = ["get", "exec", "impersonate", "top", "rollout restart", "set image"];
        assert!(known.iter().all(|verb| unknown_verb(verb).is_none()));
    }

    #[test]
    fn host_verb_comes_from_the_http_method() {
        for (verb, subresource, proxy) in [
            ("list", "", "get"),
            ("get", "log", "get"),
            ("create", "exec", "create"),
            ("get", "exec", "create"),
            ("patch", "scale", "patch"),
            ("deletecollection", "", "delete"),
        ] {
            let right = json!({"resourceAttributes": {"verb": verb, "subresource": subresource}});
            assert_eq!(proxy_verb(&right), proxy);
        }
        assert_eq!(proxy_verb(&json!({"nonResourceAttributes": {"verb": "get"}})), "get");
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
