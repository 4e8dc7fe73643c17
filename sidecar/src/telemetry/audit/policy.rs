//! The audit policy (`audit.k8s.io/v1 Policy`; apiserver: `pkg/audit/policy`): the first rule that matches a
//! request decides whether it is recorded, and which stages are omitted. Rules match the request to the
//! member; `clusters` is an addition.

use std::path::Path;

use serde::Deserialize;

use super::attributes::Attributes;
use super::event::Stage;
use crate::head::request_info::RequestedObject;
use crate::identity::Identity;

/// Which requests are recorded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    api_version: String,
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: Option<serde_json::Value>,
    rules: Vec<Rule>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    /// Concerns bodies, which are not recorded.
    #[serde(default, rename = "omitManagedFields")]
    _omit_managed_fields: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    clusters: Vec<String>,
    #[serde(default)]
    resources: Vec<GroupResources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default, rename = "omitManagedFields")]
    _omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GroupResources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum Level {
    #[default]
    None,
    Metadata,
    Request,
    RequestResponse,
}

/// The recorded stages of a request; none if the request is not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recorded {
    pub(super) is_recorded: bool,
    omitted: Vec<Stage>,
}

impl Recorded {
    pub(super) fn has(&self, stage: Stage) -> bool {
        self.is_recorded && !self.omitted.contains(&stage)
    }
}

impl Policy {
    /// Records every request at level Metadata. The event of the end contains everything that the
    /// event of the start contains.
    pub fn everything(is_beginning_recorded: bool) -> Self {
        let rules = vec![Rule { level: Level::Metadata, ..Rule::default() }];
        let omit_stages = if is_beginning_recorded { Vec::new() } else { vec![Stage::RequestReceived] };
        Self { rules, omit_stages, ..Self::default() }
    }

    /// # Errors
    ///
    /// The file cannot be read, is not a policy, or requires a level with bodies.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(file)?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, Error> {
        // Deserializing YAML directly into each type would add 140 KB to the binary.
        let malformed = |error: &dyn ToString| Error::Malformed(error.to_string());
        let value: serde_json::Value = serde_saphyr::from_str(text).map_err(|error| malformed(&error))?;
        let policy: Self = serde_json::from_value(value).map_err(|error| malformed(&error))?;
        if policy.api_version != API_VERSION || policy.kind != KIND {
            return Err(Error::Kind { kind: policy.kind, version: policy.api_version });
        }
        if policy.rules.is_empty() {
            return Err(Error::Malformed("there are no rules".to_owned()));
        }
        for (at, rule) in policy.rules.iter().enumerate() {
            if matches!(rule.level, Level::Request | Level::RequestResponse) {
                return Err(Error::Level { rule: at, level: format!("{:?}", rule.level) });
            }
            rule.validate().map_err(|reason| Error::Malformed(format!("rules[{at}]{reason}")))?;
        }
        Ok(policy)
    }

    /// The recorded stages of a request. A failed login has no user.
    pub(super) fn evaluate(&self, attributes: &Attributes, user: Option<&Identity>) -> Recorded {
        match self.rules.iter().find(|rule| rule.matches(attributes, user)) {
            Some(rule) => Recorded {
                is_recorded: rule.level == Level::Metadata,
                omitted: rule.omit_stages.iter().chain(&self.omit_stages).copied().collect(),
            },
            None => Recorded::default(),
        }
    }
}

impl Rule {
    /// The same checks as in a kube-apiserver (apiserver: `pkg/apis/audit/validation`).
    fn validate(&self) -> Result<(), &'static str> {
        let urls = &self.non_resource_urls;
        let is_misplaced = |text: &String| text.trim_end_matches('*').contains('*');
        match () {
            () if !(urls.is_empty() || self.resources.is_empty() && self.namespaces.is_empty()) => {
                Err(" names resources or namespaces and nonResourceURLs")
            }
            () if urls.iter().any(|url| url != "*" && !url.starts_with('/')) => {
                Err(".nonResourceURLs: a URL begins with /")
            }
            () if urls.iter().chain(&self.clusters).any(is_misplaced) => {
                Err(": * is allowed at the end of a URL or a cluster only")
            }
            () if self
                .resources
                .iter()
                .any(|resources| resources.resources.is_empty() && !resources.resource_names.is_empty()) =>
            {
                Err(".resources: resourceNames need resources")
            }
            () => Ok(()),
        }
    }

    fn matches(&self, attributes: &Attributes, user: Option<&Identity>) -> bool {
        let among = |list: &[String], value: &str| list.is_empty() || list.iter().any(|item| item == value);
        let is_user = self.users.is_empty() || user.is_some_and(|user| among(&self.users, &user.user));
        let is_in_group = self.user_groups.is_empty()
            || user.is_some_and(|user| self.user_groups.iter().any(|group| user.is_in(group)));
        let is_of_cluster = self.clusters.is_empty()
            || attributes.cluster.as_ref().is_some_and(|cluster| {
                self.clusters.iter().any(|pattern| has_form(cluster.as_str(), pattern))
            });
        if !(is_user && is_in_group && is_of_cluster && among(&self.verbs, &attributes.verb)) {
            return false;
        }
        if !(self.namespaces.is_empty() && self.resources.is_empty()) {
            return attributes.object.as_ref().is_some_and(|object| {
                among(&self.namespaces, &object.namespace)
                    && (self.resources.is_empty()
                        || self.resources.iter().any(|resources| resources.matches(object)))
            });
        }
        self.non_resource_urls.is_empty()
            || (attributes.object.is_none()
                && self.non_resource_urls.iter().any(|pattern| has_form(&attributes.path, pattern)))
    }
}

impl GroupResources {
    fn matches(&self, object: &RequestedObject) -> bool {
        if self.group != "*" && self.group != object.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let is_named = self.resource_names.is_empty() || self.resource_names.contains(&object.name);
        let combined = match object.subresource.as_str() {
            "" => object.resource.clone(),
            subresource => format!("{}/{subresource}", object.resource),
        };
        let is_meant = |resource: &String| {
            resource == "*"
                || *resource == combined
                || (!object.subresource.is_empty()
                    && resource.strip_prefix("*/") == Some(&object.subresource))
                || resource.strip_suffix("/*") == Some(&object.resource)
        };
        is_named && self.resources.iter().any(is_meant)
    }
}

/// A `*` at the end of a pattern matches any text.
fn has_form(text: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => text.starts_with(begin),
        None => text == pattern,
    }
}

/// Why a file is not a valid policy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the audit policy: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error("{0}")]
    Malformed(String),
    #[error("the file holds a {kind} of {version}, not a {KIND} of {API_VERSION}")]
    Kind { kind: String, version: String },
    #[error("rules[{rule}] has level {level}, but bodies are not recorded: use Metadata or None")]
    Level { rule: usize, level: String },
}

const API_VERSION: &str = "audit.k8s.io/v1";
const KIND: &str = "Policy";

#[cfg(test)]
mod tests {
    use super::super::attributes::tests::attributes;
    use super::*;

    const MEMBER: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy";

    /// Whether a policy with this single rule records a request of jane in group dev.
    fn matches(rule: &str, method: &str, path: &str) -> bool {
        let text = format!("apiVersion: {API_VERSION}\nkind: {KIND}\nrules:\n- level: Metadata\n  {rule}\n");
        let jane =
            Identity { user: "jane".to_owned(), groups: vec!["dev".to_owned()], ..Identity::default() };
        let attributes = attributes(method, &format!("{MEMBER}{path}"));
        Policy::parse(&text).unwrap().evaluate(&attributes, Some(&jane)).is_recorded
    }

    #[test]
    fn rules_match_as_in_kube_apiserver() {
        let (pods, log) = ("/api/v1/namespaces/ns/pods", "/api/v1/namespaces/ns/pods/web/log");
        for (rule, path, expected) in [
            ("users: [jane]", pods, true),
            ("users: [bob]", pods, false),
            ("userGroups: [ops, dev]", pods, true),
            ("userGroups: [ops]", pods, false),
            ("verbs: [list]", pods, true),
            ("verbs: [get]", pods, false),
            ("clusters: [m2, \"m*\"]", pods, true),
            ("clusters: [m2]", pods, false),
            ("namespaces: [ns]", pods, true),
            ("namespaces: [\"\"]", pods, false),
            ("namespaces: [ns]", "/healthz", false),
            ("resources: [{group: \"\"}]", pods, true),
            ("resources: [{group: apps}]", pods, false),
            ("resources: [{group: \"*\", resources: [pods]}]", pods, true),
            ("resources: [{resources: [pods]}]", log, false),
            ("resources: [{resources: [pods/log]}]", log, true),
            ("resources: [{resources: [pods/*]}]", log, true),
            ("resources: [{resources: [\"*/log\"]}]", log, true),
            ("resources: [{resources: [\"*\"]}]", log, true),
            ("resources: [{resources: [pods/log], resourceNames: [web]}]", log, true),
            ("resources: [{resources: [pods/log], resourceNames: [db]}]", log, false),
            ("nonResourceURLs: [/healthz*]", "/healthz/ping", true),
            ("nonResourceURLs: [/healthz]", "/healthz/ping", false),
            ("nonResourceURLs: [\"*\"]", pods, false),
        ] {
            assert_eq!(matches(rule, "GET", path), expected, "{rule} {path}");
        }
    }

    #[test]
    fn first_matching_rule_decides_and_no_rule_records_nothing() {
        let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
                    - {level: None, users: [jane]}\n- {level: Metadata, verbs: [list], omitStages: [Panic]}\n";
        let policy = Policy::parse(text).unwrap();
        let list = attributes("GET", &format!("{MEMBER}/api/v1/pods"));
        let user = |name: &str| Identity { user: name.to_owned(), ..Identity::default() };
        assert!(!policy.evaluate(&list, Some(&user("jane"))).is_recorded);
        let recorded = policy.evaluate(&list, Some(&user("bob")));
        assert!(recorded.has(Stage::ResponseComplete));
        assert!(!recorded.has(Stage::RequestReceived) && !recorded.has(Stage::Panic));
        let get = attributes("GET", &format!("{MEMBER}/api/v1/nodes/n"));
        assert!(!policy.evaluate(&get, Some(&user("bob"))).is_recorded);
        assert!(policy.evaluate(&list, None).is_recorded, "a failed login has no user");
    }

    #[test]
    fn invalid_policy_error_names_the_rule() {
        for (text, said) in [
            ("rules: [{level: Request}]", "rules[0] has level Request, but bodies are not recorded"),
            ("rules: []", "there are no rules"),
            ("rules: [{level: Metadata, cluster: [m1]}]", "cluster"),
            ("rules: [{level: All}]", "All"),
            (
                "rules: [{level: None, resources: [{resourceNames: [x]}]}]",
                "rules[0].resources: resourceNames need resources",
            ),
            (
                "rules: [{level: None}, {level: None, nonResourceURLs: [logs]}]",
                "rules[1].nonResourceURLs: a URL begins with /",
            ),
            ("rules: [{level: None, nonResourceURLs: ['/a*b']}]", "rules[0]: * is allowed at the end"),
            ("rules: [{level: None, clusters: ['*-eu']}]", "rules[0]: * is allowed at the end"),
            (
                "rules: [{level: Metadata, namespaces: [x], nonResourceURLs: [/x]}]",
                "rules[0] names resources or namespaces and nonResourceURLs",
            ),
        ] {
            let error = Policy::parse(&format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{text}\n"));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        let error = Policy::parse("apiVersion: v1\nkind: Pod\nrules: [{level: None}]\n").unwrap_err();
        assert_eq!(error.to_string(), "the file holds a Pod of v1, not a Policy of audit.k8s.io/v1");
    }
}
