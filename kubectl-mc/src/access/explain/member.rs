//! The verdicts of the member, asked by reviews through the caller's proxy path.

use http::{Method, StatusCode};
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::names::{IMPERSONATOR, NAMESPACE};
use serde_json::{Value, json};

use super::hops::{self, Verdict};
use super::{REVIEWS, SELF_REVIEWS};
use crate::access::identity::Identity;
use crate::access::kinds::{self, ResourceAttributes};
use crate::access::rules::Rules;
use crate::access::through;
use crate::cli::ExplainArgs;
use crate::cluster::client::Reply;
use crate::cluster::hop::{Hop, Refusal};
use crate::error::Failure;
use crate::join::side::Side;

/// What is asked, and of whom.
pub(super) struct Question<'a> {
    pub(super) host: &'a Side,
    /// The member, by the caller's proxy path.
    pub(super) member: &'a Side,
    pub(super) cluster: &'a ClusterName,
    pub(super) who: &'a Identity,
    /// By which the sidecar shows them to the member.
    pub(super) rules: &'a Rules,
    pub(super) arguments: &'a ExplainArgs,
}

type Verdicts = Vec<(&'static str, Verdict)>;

impl Question<'_> {
    /// By SubjectAccessReviews: for the sidecar's account and for the impersonated user.
    pub(super) async fn of_another(&self, grant: &impl Fn() -> String) -> Result<Verdicts, Failure> {
        let Self { cluster, .. } = self;
        let there = match self.who.on_member(self.rules) {
            Ok(there) => there,
            Err(why) => return Ok(shown_nobody(why)),
        };
        let impersonator = Identity::named(&format!("system:serviceaccount:{NAMESPACE}:{IMPERSONATOR}"), &[]);
        let mut missing = Vec::new();
        for right in there.rights() {
            let what = hops::right_in_words(&right);
            let review = impersonator.review(&json!({"resourceAttributes": right}));
            if !self.ask(&review).await?.0 {
                missing.push(what);
            }
        }
        let impersonation = if missing.is_empty() {
            Verdict::yes(format!("the sidecar may impersonate {} on {cluster}", there.in_words()))
        } else {
            Verdict::no(format!("{IMPERSONATOR} may not impersonate {}", missing.join(", ")), self.diff())
        };
        let (allowed, reason) = self.ask(&there.review(&self.attributes().await)).await?;
        Ok(vec![
            ("member impersonation", impersonation),
            ("member authorization", self.authorization(allowed, &reason, grant)),
        ])
    }

    /// By a SelfSubjectAccessReview, which everybody may make: that it gets there shows the impersonation.
    pub(super) async fn of_oneself(&self, grant: &impl Fn() -> String) -> Result<Verdicts, Failure> {
        let Self { member, cluster, .. } = self;
        if let Err(why) = self.who.on_member(self.rules) {
            return Ok(shown_nobody(why));
        }
        let review = hops::self_review(&self.attributes().await);
        let ask = || member.send(Method::POST, SELF_REVIEWS, Some(("application/json", &review)));
        let mut answer = ask().await?;
        if is_just_granted(&answer) {
            answer = ask().await?;
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

    /// The command that shows what is missing.
    fn diff(&self) -> String {
        format!("{} access diff {}", self.host.at.cluster.kubectl_mc(), self.cluster)
    }

    /// Whether the member's authorizer says yes, and why.
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

    /// What is asked of the member's authorizer. Where its resources cannot be read, what was typed.
    async fn attributes(&self) -> Value {
        let Self { host, member, cluster, arguments, .. } = self;
        let found = kinds::find(&arguments.resource, member, &host.at.cluster, cluster).await;
        hops::attributes(arguments, found.unwrap_or_else(|_| ResourceAttributes::typed(&arguments.resource)))
    }

    fn authorization(&self, allowed: bool, reason: &str, grant: &impl Fn() -> String) -> Verdict {
        if allowed {
            return Verdict::yes(hops::with_reason("allowed", reason));
        }
        Verdict::no(hops::with_reason(&format!("nothing on {} allows it", self.cluster), reason), grant())
    }
}

/// Whether the member lets the sidecar impersonate the caller since a moment ago, which the question made happen:
/// the sidecar does not repeat a request that has a body.
fn is_just_granted(answer: &Reply) -> bool {
    answer.status == StatusCode::SERVICE_UNAVAILABLE
        && answer.refusal().is_some_and(|refusal| refusal.hop == Hop::MemberImpersonation)
}

fn shown_nobody(why: String) -> Verdicts {
    vec![
        ("member impersonation", Verdict::no(why, "log in to the host as another user".to_owned())),
        (
            "member authorization",
            Verdict::Unknown("the sidecar forwards no identity to the member".to_owned(), None),
        ),
    ]
}
