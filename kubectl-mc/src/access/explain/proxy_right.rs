//! Checks the host's right on a member's proxy, and names the API group of the grant. For members of a hub's
//! inventory, a grant in the hub's group also counts, but only on the sidecar's direct endpoint or
//! on the hub's own path: the host's kube-apiserver checks the group of the path before it forwards
//! a request.

use http::Method;
use kubectl_mc_api::{ClusterName, Origin};
use serde_json::json;

use super::hops::{self, Verdict};
use super::hops::{REVIEWS, SELF_REVIEWS};
use crate::access::identity::Identity;
use crate::cluster::connection::Connection;
use crate::error::Failure;

/// The user and the member of the right.
pub(super) struct ProxyRight<'a> {
    pub(super) host: &'a Connection,
    pub(super) who: &'a Identity,
    pub(super) is_self: bool,
    pub(super) cluster: &'a ClusterName,
    /// The inventory that lists the member.
    pub(super) origin: Origin,
}

/// A response of the host's authorizer.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Allowed(String),
    Refused(String),
    /// The caller may not create the review.
    NotAnswered(String),
}

impl ProxyRight<'_> {
    /// The verdict for several verbs: that of the first one that is not allowed, or of the last
    /// one.
    pub(super) async fn verdict_of_all(
        &self,
        verbs: &[&'static str],
        grant: &impl Fn() -> String,
    ) -> Result<Verdict, Failure> {
        let mut verdict = Verdict::Unknown("the request is unknown".to_owned(), None);
        for verb in verbs {
            verdict = self.verdict(verb, grant).await?;
            if !matches!(verdict, Verdict::Yes(_)) {
                break;
            }
        }
        Ok(verdict)
    }

    async fn verdict(&self, needed: &str, grant: &impl Fn() -> String) -> Result<Verdict, Failure> {
        let what = format!("{needed} clusters/proxy of {}", self.cluster);
        let own = self.ask(needed, Origin::MemberCluster).await?;
        if !self.origin.is_hub() {
            return Ok(of_own(&own, &what, grant));
        }
        let by_hub = self.ask(needed, self.origin).await?;
        Ok(of_both(&own, self.origin, &by_hub, &what, grant))
    }

    /// Upgrades need create, regardless of their method.
    async fn ask(&self, needed: &str, group: Origin) -> Result<Answer, Failure> {
        let attributes = json!({"resourceAttributes": {
            "group": group.grant_group(), "version": group.grant_version(), "resource": group.grant_resource(),
            "subresource": "proxy", "name": self.cluster.as_str(), "verb": needed,
        }});
        // Every user may review their own rights.
        let (path, review) = if self.is_self {
            (SELF_REVIEWS, hops::self_review(&attributes))
        } else {
            (REVIEWS, self.who.review(&attributes))
        };
        let answer = self.host.send(Method::POST, path, Some(("application/json", &review))).await?;
        if !answer.status.is_success() {
            return Ok(Answer::NotAnswered(answer.message().to_string()));
        }
        let status = &answer.json()["status"];
        let reason = status["reason"].as_str().unwrap_or_default().to_owned();
        Ok(if status["allowed"] == true { Answer::Allowed(reason) } else { Answer::Refused(reason) })
    }
}

fn of_own(own: &Answer, what: &str, grant: &impl Fn() -> String) -> Verdict {
    match own {
        Answer::Allowed(reason) => Verdict::yes(hops::with_reason(what, reason)),
        Answer::Refused(reason) => {
            Verdict::no(hops::with_reason(&format!("may not {what}"), reason), grant())
        }
        Answer::NotAnswered(message) => {
            Verdict::Unknown(format!("you may not ask the host about others: {message}"), None)
        }
    }
}

fn of_both(own: &Answer, hub: Origin, by_hub: &Answer, what: &str, grant: &impl Fn() -> String) -> Verdict {
    let (ours, theirs) = (Origin::MemberCluster.grant_group(), hub.grant_group());
    match (own, by_hub) {
        (Answer::Allowed(reason), Answer::Allowed(_)) => {
            Verdict::yes(hops::with_reason(&format!("{what}, granted in {ours} and in {theirs}"), reason))
        }
        (Answer::Allowed(reason), _) => {
            Verdict::yes(hops::with_reason(&format!("{what}, granted in {ours}"), reason))
        }
        (Answer::Refused(_), Answer::Allowed(reason)) => {
            let places = match hub.has_served_group() {
                true => "on the path of that group and at the direct endpoint",
                false => "at the direct endpoint",
            };
            let why = format!("may not {what} through the host: the grant in {theirs} counts only {places}");
            Verdict::no(hops::with_reason(&why, reason), grant())
        }
        (Answer::Refused(reason), Answer::Refused(_)) => Verdict::no(
            hops::with_reason(&format!("may not {what}, neither in {ours} nor in {theirs}"), reason),
            grant(),
        ),
        (own, _) => of_own(own, what, grant),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(reason: &str) -> Answer {
        Answer::Allowed(reason.to_owned())
    }

    fn refused(reason: &str) -> Answer {
        Answer::Refused(reason.to_owned())
    }

    fn both(own: &Answer, hub: Origin, by_hub: &Answer) -> (bool, String) {
        match of_both(own, hub, by_hub, "get clusters/proxy of m1", &|| "grant it".to_owned()) {
            Verdict::Yes(why) => (true, why),
            Verdict::No(why, fix) => (false, format!("{why} ({fix})")),
            Verdict::Unknown(why, _) => (false, format!("? {why}")),
        }
    }

    #[test]
    fn verdict_names_the_group_of_the_grant() {
        for (own, karmada, expected) in [
            (
                allowed("rule"),
                refused(""),
                (true, "get clusters/proxy of m1, granted in proxy.kubectl-mc.dev: rule"),
            ),
            (
                allowed("rule"),
                allowed("x"),
                (
                    true,
                    "get clusters/proxy of m1, granted in proxy.kubectl-mc.dev and in cluster.karmada.io: rule",
                ),
            ),
            (
                refused(""),
                allowed("rule"),
                (
                    false,
                    "may not get clusters/proxy of m1 through the host: the grant in cluster.karmada.io counts only at the direct endpoint: rule (grant it)",
                ),
            ),
            (
                refused(""),
                refused(""),
                (
                    false,
                    "may not get clusters/proxy of m1, neither in proxy.kubectl-mc.dev nor in cluster.karmada.io (grant it)",
                ),
            ),
            (
                Answer::NotAnswered("no".to_owned()),
                refused(""),
                (false, "? you may not ask the host about others: no"),
            ),
        ] {
            let (is_yes, why) = both(&own, Origin::Karmada, &karmada);
            assert_eq!((is_yes, why.as_str()), expected);
        }
        let (_, why) = both(&refused(""), Origin::KubeAdmiral, &allowed("rule"));
        let expected = "the grant in aggregated.kubeadmiral.io counts only on the path of that group and at the direct endpoint";
        assert!(why.contains(expected), "{why}");
    }

    #[test]
    fn builtin_hub_verdict_omits_the_api_group() {
        let verdict = of_own(&allowed("rule"), "get clusters/proxy of m1", &String::new);
        assert_eq!(verdict, Verdict::Yes("get clusters/proxy of m1: rule".to_owned()));
    }
}
