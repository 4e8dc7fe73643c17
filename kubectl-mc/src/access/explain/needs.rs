//! Maps a kubectl command to the rights that it needs on the member, according to the requests in
//! kubectl's source: `exec` gets the pod, then creates `pods/exec`. An RBAC verb needs itself.

use crate::cli::ExplainArgs;

/// A right of a command. [`NeededObject::Pod`] and [`NeededObject::Given`] have the name that the command gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) verb: &'static str,
    pub(super) object: NeededObject,
    pub(super) subresource: &'static str,
}

/// The object of a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NeededObject {
    /// The resource of the command.
    Given,
    /// The pod of the command, or any pod if the command names another resource.
    Pod,
    /// All objects of a resource, in this API group.
    All(&'static str, &'static str),
}

/// How a command names its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectWords {
    /// `RESOURCE [OBJECT]`
    Resource,
    /// An object of this resource, or a resource and an object.
    NameOf(&'static str),
    /// As `NameOf` pods, with a path: `[NAMESPACE/]POD:PATH`.
    PodPath,
    /// A new object of this resource.
    New(&'static str),
}

/// The command: its verb, and the words after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KubectlCommand {
    /// `exec`, `rollout restart`
    pub(super) verb: String,
    pub(super) resource: String,
    pub(super) object: Option<String>,
    /// The namespace that the words name.
    pub(super) namespace: Option<String>,
}

impl KubectlCommand {
    pub(super) fn of(arguments: &ExplainArgs) -> Self {
        let ExplainArgs { verb, resource, object, after_object, .. } = arguments;
        let rest = [Some(resource), object.as_ref(), after_object.as_ref()];
        let mut rest = rest.into_iter().flatten().cloned().chain(arguments.rest.iter().cloned());
        let mut verb = verb.clone();
        if DOUBLE.contains(&verb.as_str()) {
            verb = format!("{verb} {}", rest.next().unwrap_or_default());
        }
        let mut rest: Vec<String> = rest.collect();
        let mut namespace = None;
        if words(&verb) == ObjectWords::PodPath
            && let Some(path) = rest.iter().find(|word| word.contains(':')).cloned()
        {
            let pod = path.split(':').next().unwrap_or_default();
            let (place, pod) = pod.split_once('/').map_or((None, pod), |(place, pod)| (Some(place), pod));
            namespace = place.map(str::to_owned);
            rest = vec!["pods".to_owned(), pod.to_owned()];
        }
        let mut rest = rest.into_iter();
        let resource = rest.next().unwrap_or_default();
        Self { verb, resource, object: rest.next(), namespace }
    }
}

/// How a command names its object.
pub(super) fn words(verb: &str) -> ObjectWords {
    match verb {
        "exec" | "attach" | "logs" | "port-forward" | "debug" => ObjectWords::NameOf("pods"),
        "cp" => ObjectWords::PodPath,
        "run" => ObjectWords::New("pods"),
        "cordon" | "uncordon" | "drain" => ObjectWords::NameOf("nodes"),
        "certificate approve" | "certificate deny" => {
            ObjectWords::NameOf("certificatesigningrequests.certificates.k8s.io")
        }
        _ => ObjectWords::Resource,
    }
}

/// The rights of a command, in the order of its requests; a verb of RBAC is not listed. `resource` is the plural, and
/// `is_named` whether the command names an object.
pub(super) fn of(verb: &str, resource: &str, is_named: bool) -> Option<Vec<Need>> {
    let read = if is_named { "get" } else { "list" };
    let through_pod = |verb: &'static str, subresource: &'static str| {
        let mut needs = Vec::new();
        if resource != "pods" {
            needs.extend([given("get"), all("list", "", "pods")]);
        }
        needs.extend([on_pod("get", ""), on_pod(verb, subresource)]);
        needs
    };
    Some(match verb {
        "exec" | "cp" => through_pod("create", "exec"),
        "attach" => through_pod("create", "attach"),
        "port-forward" => through_pod("create", "portforward"),
        "logs" => through_pod("get", "log"),
        "debug" if resource == "nodes" => vec![given("get"), all("create", "", "pods")],
        "debug" => through_pod("patch", "ephemeralcontainers"),
        "run" => vec![all("create", "", "pods")],
        "describe" => vec![given(read)],
        "top" => vec![given(read)],
        "wait" => ["get", "list", "watch"].map(given).to_vec(),
        "scale" => vec![given("get"), Need { subresource: "scale", ..given("patch") }],
        "edit" | "label" | "annotate" | "taint" | "cordon" | "uncordon" | "diff" => {
            vec![given("get"), given("patch")]
        }
        verb if verb.starts_with("set ") => vec![given("get"), given("patch")],
        // Without an object, it may also be a new one.
        "apply" if !is_named => ["get", "create", "patch"].map(given).to_vec(),
        "apply" => vec![given("get"), given("patch")],
        "replace" => vec![given("get"), given("update")],
        "autoscale" => vec![given("get"), all("create", "autoscaling", "horizontalpodautoscalers")],
        "expose" => vec![given("get"), all("create", "", "services")],
        "drain" => vec![
            given("get"),
            given("patch"),
            all("list", "", "pods"),
            Need { subresource: "eviction", ..all("create", "", "pods") },
        ],
        "certificate approve" | "certificate deny" => {
            vec![given("get"), Need { subresource: "approval", ..given("update") }]
        }
        "rollout status" => ["get", "list", "watch"].map(given).to_vec(),
        "rollout history" => vec![given("get"), revisions(resource)],
        "rollout undo" => vec![given("get"), revisions(resource), given("patch")],
        "rollout restart" | "rollout pause" | "rollout resume" => vec![given("get"), given("patch")],
        _ => return None,
    })
}

/// The objects that hold the former versions of a workload.
fn revisions(resource: &str) -> Need {
    all("list", "apps", if resource == "deployments" { "replicasets" } else { "controllerrevisions" })
}

fn given(verb: &'static str) -> Need {
    Need { verb, object: NeededObject::Given, subresource: "" }
}

fn on_pod(verb: &'static str, subresource: &'static str) -> Need {
    Need { verb, object: NeededObject::Pod, subresource }
}

fn all(verb: &'static str, group: &'static str, resource: &'static str) -> Need {
    Need { verb, object: NeededObject::All(group, resource), subresource: "" }
}

/// Commands whose second word is a part of the verb.
pub(super) const DOUBLE: &[&str] = &["certificate", "rollout", "set"];

/// The second words, for a message.
pub(super) fn second_words(verb: &str) -> &'static [&'static str] {
    match verb {
        "certificate" => &["approve", "deny"],
        "rollout" => &["history", "pause", "restart", "resume", "status", "undo"],
        "set" => &["env", "image", "resources", "selector", "serviceaccount", "subject"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_line(line: &str) -> (String, String, String) {
        let mut words = line.split(' ').map(str::to_owned);
        let arguments = ExplainArgs {
            verb: words.next().unwrap(),
            resource: words.next().unwrap(),
            object: words.next(),
            after_object: words.next(),
            rest: words.collect(),
            ..ExplainArgs::default()
        };
        let KubectlCommand { verb, resource, object, namespace } = KubectlCommand::of(&arguments);
        (verb, format!("{resource} {}", object.unwrap_or_default()), namespace.unwrap_or_default())
    }

    #[test]
    fn words_of_a_command_name_verb_and_object() {
        for (line, verb, object, namespace) in [
            ("exec web", "exec", "web ", ""),
            ("get pods web", "get", "pods web", ""),
            ("rollout restart deploy web", "rollout restart", "deploy web", ""),
            ("set image deploy/web web=nginx", "set image", "deploy/web web=nginx", ""),
            ("cp shop/web:/etc/passwd .", "cp", "pods web", "shop"),
            ("cp a.txt web:/tmp", "cp", "pods web", ""),
            ("cp pods web", "cp", "pods web", ""),
        ] {
            let expected = (verb.to_owned(), object.to_owned(), namespace.to_owned());
            assert_eq!(of_line(line), expected, "{line}");
        }
    }

    #[test]
    fn command_needs_the_rights_of_its_requests() {
        let text = |verb: &str, resource: &str, is_named: bool| {
            let needs = of(verb, resource, is_named).unwrap_or_default();
            let word = |need: &Need| {
                let object = match need.object {
                    NeededObject::Given => resource,
                    NeededObject::Pod => "pods",
                    NeededObject::All(_, resource) => resource,
                };
                let sub = if need.subresource.is_empty() {
                    String::new()
                } else {
                    format!("/{}", need.subresource)
                };
                format!("{} {object}{sub}", need.verb)
            };
            needs.iter().map(word).collect::<Vec<_>>().join(", ")
        };
        for (verb, resource, is_named, expected) in [
            ("exec", "pods", true, "get pods, create pods/exec"),
            ("exec", "deployments", true, "get deployments, list pods, get pods, create pods/exec"),
            ("logs", "pods", true, "get pods, get pods/log"),
            ("scale", "deployments", true, "get deployments, patch deployments/scale"),
            ("rollout undo", "deployments", true, "get deployments, list replicasets, patch deployments"),
            ("rollout history", "statefulsets", true, "get statefulsets, list controllerrevisions"),
            ("describe", "pods", false, "list pods"),
            ("apply", "pods", false, "get pods, create pods, patch pods"),
            ("drain", "nodes", true, "get nodes, patch nodes, list pods, create pods/eviction"),
            ("get", "pods", true, ""),
        ] {
            assert_eq!(text(verb, resource, is_named), expected, "{verb} {resource}");
        }
    }
}
