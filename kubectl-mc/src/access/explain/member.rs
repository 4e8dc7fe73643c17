//! Determines the verdicts of the member by reviews through the caller's proxy path.

use http::{Method, StatusCode};
use kubectl_mc_api::access::sent::AUTHENTICATED;
use kubectl_mc_api::member_cluster::ServiceAccounts;
use kubectl_mc_api::{ClusterName, Origin};
use serde_json::{Value, json};

use super::hops::{self, Verdict, Verdicts};
use super::hops::{REVIEWS, SELF_REVIEWS};
use super::needs::{self, KubectlCommand, ObjectWords};
use crate::access::identity::Identity;
use crate::access::impersonator;
use crate::access::kinds::{self, ResourceAttributes};
use crate::access::rules::Rules;
use crate::access::through;
use crate::cluster::client::Reply;
use crate::cluster::connection::Connection;
use crate::cluster::hop::{Hop, Refusal};
use crate::error::Failure;

/// The request to explain, and the user.
pub(super) struct Question<'a> {
    pub(super) host: &'a Connection,
    /// The member, through the caller's proxy path.
    pub(super) member: &'a Connection,
    pub(super) cluster: &'a ClusterName,
    pub(super) who: &'a Identity,
    /// The rules by which the sidecar presents the user to the member.
    pub(super) rules: &'a Rules,
    /// Whether the sidecar gets rights on the member on demand.
    pub(super) learns: bool,
    /// The inventory that lists the member.
    pub(super) origin: Origin,
    /// Whether the groups of the user are unknown, so that a missing rule does not mean a refusal.
    pub(super) has_unknown_groups: bool,
    /// The rights that the command needs, in the order of its requests.
    pub(super) rights: Vec<Right>,
    /// The resource as typed, if the member does not serve it.
    pub(super) unknown: Option<String>,
}

/// A right to check.
#[derive(Debug, Default)]
pub(super) struct Right {
    /// The attributes of a review.
    pub(super) attributes: Value,
    /// The path of a GET that needs exactly this right.
    read: Option<String>,
}

impl Question<'_> {
    /// Resolves the attributes for the member's authorizer; uses the words as typed if the member's resources
    /// cannot be read.
    pub(super) async fn resolve(&mut self, command: &KubectlCommand, namespace: Option<&str>) {
        let Self { host, member, cluster, .. } = *self;
        let typed = &command.resource;
        if typed.starts_with('/') {
            let read = (command.verb == "get").then(|| typed.clone());
            let attributes = hops::attributes(command, namespace, &ResourceAttributes::typed(typed));
            self.rights =
                attributes.into_iter().map(|attributes| Right { attributes, read: read.clone() }).collect();
            return;
        }
        let resolve = async |typed: &str| kinds::find(typed, member, &host.cluster, cluster).await;
        let mut named = command.clone();
        let mut found = match needs::words(&command.verb) {
            ObjectWords::New(resource) => {
                named.object = None;
                resolve(resource).await
            }
            ObjectWords::Resource | ObjectWords::NameOf(_) | ObjectWords::PodPath => resolve(typed).await,
        };
        // In `exec web` the only word is the name of a pod.
        let names = match needs::words(&command.verb) {
            ObjectWords::NameOf(resource) => Some(resource),
            ObjectWords::PodPath => Some("pods"),
            ObjectWords::Resource | ObjectWords::New(_) => None,
        };
        let is_name = match &found {
            Ok(found) => found.is_none(),
            Err(_) => command.object.is_none(),
        };
        if let Some(resource) = names.filter(|_| is_name && !typed.contains('/')) {
            named = KubectlCommand { resource: resource.to_owned(), object: Some(typed.clone()), ..named };
            if found.is_ok() {
                found = resolve(resource).await;
            }
        }
        let typed = &named.resource;
        let is_unserved = matches!(found, Ok(None));
        let resource = found.ok().flatten().unwrap_or_else(|| ResourceAttributes::typed(typed));
        let right = |attributes: Value| {
            let review = &attributes["resourceAttributes"];
            // Only the root of the given resource is known.
            let is_given = review["group"] == resource.group && review["resource"] == resource.resource;
            let root = resource.root.as_deref().filter(|_| is_given);
            let read = match is_unserved {
                true => Some("/version".to_owned()),
                false => root.and_then(|root| read_path(root, review)),
            };
            Right { attributes, read }
        };
        self.unknown = is_unserved.then(|| typed.clone());
        self.rights = hops::attributes(&named, namespace, &resource).into_iter().map(right).collect();
        if is_unserved {
            // The member's answer covers the resource itself.
            self.rights.truncate(1);
        }
    }

    /// The verbs on `clusters/proxy` that the command needs, each once.
    pub(super) fn proxy_verbs(&self) -> Vec<&'static str> {
        let mut verbs = Vec::new();
        for verb in self.rights.iter().map(|right| hops::proxy_verb(&right.attributes)) {
            if !verbs.contains(&verb) {
                verbs.push(verb);
            }
        }
        verbs
    }

    /// Checks with SubjectAccessReviews, for the sidecar's account and for the impersonated user.
    pub(super) async fn of_another(
        &self,
        accounts: ServiceAccounts,
        grant: &impl Fn() -> String,
    ) -> Result<Verdicts, Failure> {
        let Self { cluster, .. } = self;
        let there = match self.who.on_member(self.rules, accounts) {
            Ok(there) => there,
            Err(why) => return Ok(without_identity(why)),
        };
        let (mut account, mut missing, mut learns) = ("", Vec::new(), self.learns);
        if let Some(impersonator) = impersonator::of(self.host, cluster, self.origin).await? {
            account = impersonator.account;
            let impersonator = Identity::named(&impersonator.user(), &[]);
            for right in there.rights() {
                let review = impersonator.review(&json!({"resourceAttributes": right}));
                if !self.ask(&review).await?.0 {
                    learns &= right["group"] == "";
                    missing.push(hops::right_in_words(&right));
                }
            }
        }
        let impersonation = if missing.is_empty() {
            Verdict::yes(format!("the sidecar may impersonate {} on {cluster}", there.in_words()))
        } else if learns {
            // On-demand access covers only names and groups of an identity.
            Verdict::yes(format!(
                "on-demand access: the first request lets the sidecar impersonate {}",
                missing.join(", ")
            ))
        } else {
            Verdict::no(format!("{account} may not impersonate {}", missing.join(", ")), self.diff())
        };
        let mut authorization = Verdict::yes("allowed".to_owned());
        for right in &self.rights {
            let (allowed, reason) = self.ask(&there.review(&right.attributes)).await?;
            authorization = self.authorization(right, allowed, &reason, grant);
            if !matches!(authorization, Verdict::Yes(_)) {
                break;
            }
        }
        Ok(vec![("member impersonation", impersonation), ("member authorization", authorization)])
    }

    /// Checks with a SelfSubjectAccessReview, which every user may create. A review that reaches
    /// the member proves that impersonation works.
    pub(super) async fn of_oneself(&self, grant: &impl Fn() -> String) -> Result<Verdicts, Failure> {
        if let Err(why) = self.who.on_member(self.rules, ServiceAccounts::default()) {
            return Ok(without_identity(why));
        }
        let mut verdicts = Vec::new();
        for right in &self.rights {
            verdicts = self.of_own_right(right, grant).await?;
            if verdicts.iter().any(|(_, verdict)| !matches!(verdict, Verdict::Yes(_))) {
                break;
            }
        }
        Ok(verdicts)
    }

    async fn of_own_right(&self, right: &Right, grant: &impl Fn() -> String) -> Result<Verdicts, Failure> {
        let Self { member, cluster, .. } = self;
        let review = hops::self_review(&right.attributes);
        let ask = || member.send(Method::POST, SELF_REVIEWS, Some(("application/json", &review)));
        let mut answer = ask().await?;
        if is_just_granted(&answer) {
            answer = ask().await?;
        }
        // A review is a POST. For callers with read-only access, the read itself is sent instead.
        let only_reads = answer.refusal().is_some_and(|refusal| refusal.hop == Hop::HostAuthorization);
        let read = right.read.as_ref().filter(|_| only_reads);
        if let Some(path) = read {
            answer = member.send(Method::GET, path, None).await?;
        }
        let not_asked = |why: String| Verdict::Unknown(why, None);
        Ok(match answer.refusal() {
            Some(Refusal { hop: Hop::MemberImpersonation, message }) => vec![
                ("member impersonation", Verdict::no(message.to_string(), self.diff())),
                ("member authorization", not_asked("the member did not receive the request".to_owned())),
            ],
            Some(refusal) => {
                let why = format!("the request does not reach the member: {refusal}");
                vec![
                    ("member impersonation", not_asked(why.clone())),
                    ("member authorization", not_asked(why)),
                ]
            }
            None if read.is_some() => vec![
                ("member impersonation", Verdict::yes(format!("{cluster} accepted the impersonation"))),
                (
                    "member authorization",
                    match answer.status {
                        StatusCode::FORBIDDEN => {
                            self.authorization(right, false, answer.message().raw(), grant)
                        }
                        StatusCode::UNAUTHORIZED => not_asked(answer.message().to_string()),
                        // Any other status, such as 404, means that the member authorized the read.
                        _ => self.authorization(right, true, "", grant),
                    },
                ),
            ],
            None if answer.status == StatusCode::CREATED => {
                let status = &answer.json()["status"];
                let reason = status["reason"].as_str().unwrap_or_default();
                vec![
                    ("member impersonation", Verdict::yes(format!("{cluster} accepted the impersonation"))),
                    (
                        "member authorization",
                        self.authorization(right, status["allowed"] == true, reason, grant),
                    ),
                ]
            }
            None => {
                return Err(member.refused("answer a SelfSubjectAccessReview".to_owned(), &answer).into());
            }
        })
    }

    /// The command that lists the missing rights.
    fn diff(&self) -> String {
        format!("{} access diff {}", self.host.cluster.kubectl_mc(), self.cluster)
    }

    /// Whether the member's authorizer allows it, and its reason.
    async fn ask(&self, review: &Value) -> Result<(bool, String), Failure> {
        let Self { host, member, cluster, .. } = self;
        let answer =
            through::ask(member, &host.cluster, cluster, Method::POST, REVIEWS, Some(review)).await?;
        if !answer.status.is_success() {
            return Err(member.refused("answer a SubjectAccessReview".to_owned(), &answer).into());
        }
        let status = &answer.json()["status"];
        Ok((status["allowed"] == true, status["reason"].as_str().unwrap_or_default().to_owned()))
    }

    /// The command that lists the resources of the member.
    pub(super) fn resources(&self) -> String {
        format!("{} -C {} api-resources", self.host.cluster.kubectl_mc(), self.cluster)
    }

    fn authorization(
        &self,
        right: &Right,
        allowed: bool,
        reason: &str,
        grant: &impl Fn() -> String,
    ) -> Verdict {
        if let Some(typed) = &self.unknown {
            let Self { cluster, .. } = self;
            let why = format!("{cluster} serves no resource {typed:?}");
            return Verdict::no(why, self.resources());
        }
        if allowed {
            return Verdict::yes(hops::with_reason("allowed", reason));
        }
        // If there are several rights, the message names this one.
        let what = match self.rights.len() {
            1 => "it".to_owned(),
            _ => hops::attributes_in_words(&right.attributes),
        };
        let why = hops::with_reason(&format!("nothing on {} allows {what}", self.cluster), reason);
        self.refused(why, grant)
    }

    /// A refusal by an authorizer, which counts only if the review also contained the user's
    /// groups.
    pub(super) fn refused(&self, why: String, grant: &impl Fn() -> String) -> Verdict {
        if !self.has_unknown_groups {
            return Verdict::no(why, grant());
        }
        let user = &self.who.user;
        let hint = format!(
            "repeat with --as-group=GROUP for each group of {user} (--as-group={AUTHENTICATED} if there is none)"
        );
        Verdict::Unknown(format!("by the name alone, {why}; the groups of {user} are unknown"), Some(hint))
    }
}

/// A GET that needs the right and reads as little as possible.
fn read_path(root: &str, right: &Value) -> Option<String> {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    let text = |field: &str| right[field].as_str().filter(|text| !text.is_empty());
    let part = |begin: &str, field: &str| {
        let text = text(field).map(|text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string());
        text.map(|text| format!("{begin}/{text}")).unwrap_or_default()
    };
    let query = match (text("verb")?, text("name"), text("subresource")) {
        ("get", Some(_), Some("log")) => "?tailLines=0&limitBytes=1",
        ("get", Some(_), None | Some("status" | "scale")) => "",
        ("list", None, None) => "?limit=1",
        ("watch", None, None) => "?watch=true&timeoutSeconds=1",
        _ => return None,
    };
    let (namespace, name, sub) =
        (part("/namespaces", "namespace"), part("", "name"), part("", "subresource"));
    Some(format!("{root}{namespace}/{}{name}{sub}{query}", text("resource")?))
}

/// Whether the member has just granted impersonation of the caller, as a result of this request. The sidecar
/// does not repeat a request with a body.
fn is_just_granted(answer: &Reply) -> bool {
    answer.status == StatusCode::SERVICE_UNAVAILABLE
        && answer.refusal().is_some_and(|refusal| refusal.hop == Hop::MemberImpersonation)
}

fn without_identity(why: String) -> Verdicts {
    vec![
        ("member impersonation", Verdict::no(why, "log in to the host as another user".to_owned())),
        (
            "member authorization",
            Verdict::Unknown("the sidecar forwards no identity to the member".to_owned(), None),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_verbs_map_to_request_paths() {
        let path = |verb: &str, name: Value, subresource: Value| {
            let right = json!({"verb": verb, "resource": "pods", "namespace": "shop", "name": name, "subresource": subresource});
            read_path("/api/v1", &right)
        };
        let pods = "/api/v1/namespaces/shop/pods";
        assert_eq!(path("list", Value::Null, Value::Null), Some(format!("{pods}?limit=1")));
        assert_eq!(path("get", json!("a/b"), Value::Null), Some(format!("{pods}/a%2Fb")));
        assert_eq!(
            path("get", json!("a"), json!("log")),
            Some(format!("{pods}/a/log?tailLines=0&limitBytes=1"))
        );
        // A GET of these subresources has side effects, and a delete is not a read.
        for (verb, subresource) in [("get", json!("exec")), ("get", json!("proxy")), ("delete", Value::Null)]
        {
            assert_eq!(path(verb, json!("a"), subresource), None);
        }
    }
}
