//! Determines the verdicts of the member by reviews through the caller's proxy path.

use http::{Method, StatusCode};
use kubectl_mc_api::member_cluster::ServiceAccounts;
use kubectl_mc_api::{ClusterName, Origin};
use serde_json::{Value, json};

use super::hops::{self, Verdict};
use super::{REVIEWS, SELF_REVIEWS};
use crate::access::identity::Identity;
use crate::access::impersonator;
use crate::access::kinds::{self, ResourceAttributes};
use crate::access::rules::Rules;
use crate::access::through;
use crate::cli::ExplainArgs;
use crate::cluster::client::Reply;
use crate::cluster::hop::{Hop, Refusal};
use crate::error::Failure;
use crate::join::side::Side;

/// The request to explain, and the user.
pub(super) struct Question<'a> {
    pub(super) host: &'a Side,
    /// The member, through the caller's proxy path.
    pub(super) member: &'a Side,
    pub(super) cluster: &'a ClusterName,
    pub(super) who: &'a Identity,
    /// The rules by which the sidecar presents the user to the member.
    pub(super) rules: &'a Rules,
    /// Whether the sidecar gets rights on the member on demand.
    pub(super) learns: bool,
    /// The inventory that lists the member.
    pub(super) origin: Origin,
    pub(super) right: Right,
}

/// The right to check.
#[derive(Debug, Default)]
pub(super) struct Right {
    /// The attributes of a review.
    pub(super) attributes: Value,
    /// The path of a GET that needs exactly this right.
    read: Option<String>,
    /// The resource as typed, if the member does not serve it.
    unknown: Option<String>,
}

impl Right {
    pub(super) fn is_unknown(&self) -> bool {
        self.unknown.is_some()
    }
}

type Verdicts = Vec<(&'static str, Verdict)>;

impl Question<'_> {
    /// Resolves the attributes for the member's authorizer; uses the words as typed if the member's resources
    /// cannot be read.
    pub(super) async fn resolve(&self, arguments: &ExplainArgs) -> Right {
        let Self { host, member, cluster, .. } = self;
        let typed = &arguments.resource;
        if typed.starts_with('/') {
            let read = (arguments.verb == "get").then(|| typed.clone());
            let attributes = hops::attributes(arguments, &ResourceAttributes::typed(typed));
            return Right { attributes, read, unknown: None };
        }
        let found = kinds::find(typed, member, &host.at.cluster, cluster).await;
        if matches!(found, Ok(None)) {
            let attributes = hops::attributes(arguments, &ResourceAttributes::typed(typed));
            return Right { attributes, read: Some("/version".to_owned()), unknown: Some(typed.clone()) };
        }
        let resource = found.ok().flatten().unwrap_or_else(|| ResourceAttributes::typed(typed));
        let attributes = hops::attributes(arguments, &resource);
        let read =
            resource.root.as_deref().and_then(|root| read_path(root, &attributes["resourceAttributes"]));
        Right { attributes, read, unknown: None }
    }

    /// Checks by SubjectAccessReviews: for the sidecar's account and for the impersonated user.
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
            // On-demand access covers names and groups, and no other part of an identity.
            Verdict::yes(format!(
                "on-demand access: the first request lets the sidecar impersonate {}",
                missing.join(", ")
            ))
        } else {
            Verdict::no(format!("{account} may not impersonate {}", missing.join(", ")), self.diff())
        };
        let (allowed, reason) = self.ask(&there.review(&self.right.attributes)).await?;
        Ok(vec![
            ("member impersonation", impersonation),
            ("member authorization", self.authorization(allowed, &reason, grant)),
        ])
    }

    /// Checks by a SelfSubjectAccessReview, which every user may make. A review that reaches the member
    /// proves the impersonation.
    pub(super) async fn of_oneself(&self, grant: &impl Fn() -> String) -> Result<Verdicts, Failure> {
        let Self { member, cluster, .. } = self;
        if let Err(why) = self.who.on_member(self.rules, ServiceAccounts::default()) {
            return Ok(without_identity(why));
        }
        let review = hops::self_review(&self.right.attributes);
        let ask = || member.send(Method::POST, SELF_REVIEWS, Some(("application/json", &review)));
        let mut answer = ask().await?;
        if is_just_granted(&answer) {
            answer = ask().await?;
        }
        // A review is a POST. For callers with read-only access the read itself is made instead.
        let only_reads = answer.refusal().is_some_and(|refusal| refusal.hop == Hop::HostAuthorization);
        let read = self.right.read.as_ref().filter(|_| only_reads);
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
                        StatusCode::FORBIDDEN => self.authorization(false, answer.message().raw(), grant),
                        StatusCode::UNAUTHORIZED => not_asked(answer.message().to_string()),
                        // Any other status, such as 404, means that the member authorized the read.
                        _ => self.authorization(true, "", grant),
                    },
                ),
            ],
            None if answer.status == StatusCode::CREATED => {
                let status = &answer.json()["status"];
                let reason = status["reason"].as_str().unwrap_or_default();
                vec![
                    ("member impersonation", Verdict::yes(format!("{cluster} accepted the impersonation"))),
                    ("member authorization", self.authorization(status["allowed"] == true, reason, grant)),
                ]
            }
            None => {
                return Err(member.refused("answer a SelfSubjectAccessReview".to_owned(), &answer).into());
            }
        })
    }

    /// The command that lists the missing rights.
    fn diff(&self) -> String {
        format!("{} access diff {}", self.host.at.cluster.kubectl_mc(), self.cluster)
    }

    /// Whether the member's authorizer allows it, and its reason.
    async fn ask(&self, review: &Value) -> Result<(bool, String), Failure> {
        let Self { host, member, cluster, .. } = self;
        let answer =
            through::ask(member, &host.at.cluster, cluster, Method::POST, REVIEWS, Some(review)).await?;
        if !answer.status.is_success() {
            return Err(member.refused("answer a SubjectAccessReview".to_owned(), &answer).into());
        }
        let status = &answer.json()["status"];
        Ok((status["allowed"] == true, status["reason"].as_str().unwrap_or_default().to_owned()))
    }

    /// The command that lists the resources of the member.
    pub(super) fn resources(&self) -> String {
        format!("{} -C {} api-resources", self.host.at.cluster.kubectl_mc(), self.cluster)
    }

    fn authorization(&self, allowed: bool, reason: &str, grant: &impl Fn() -> String) -> Verdict {
        if let Some(typed) = &self.right.unknown {
            let Self { cluster, .. } = self;
            let why = format!("{cluster} serves no resource {typed:?}");
            return Verdict::no(why, self.resources());
        }
        if allowed {
            return Verdict::yes(hops::with_reason("allowed", reason));
        }
        Verdict::no(hops::with_reason(&format!("nothing on {} allows it", self.cluster), reason), grant())
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
