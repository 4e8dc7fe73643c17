//! The host's answer about `clusters/proxy` of the member, and of which API group the grant is. For members of Karmada's
//! inventory a grant of Karmada's group counts too, but only at the sidecar's direct endpoint: the host's kube-apiserver
//! checks the sidecar's own group before it forwards a request.

use http::Method;
use kubectl_mc_api::origin::{GRANT_VERSION, KARMADA_GROUP};
use kubectl_mc_api::{ClusterName, path};
use serde_json::json;

use super::hops::{self, Verdict};
use super::{REVIEWS, SELF_REVIEWS};
use crate::access::identity::Identity;
use crate::error::Failure;
use crate::join::side::Side;

/// Whose right on which member's proxy.
pub(super) struct ProxyRight<'a> {
    pub(super) host: &'a Side,
    pub(super) who: &'a Identity,
    pub(super) is_self: bool,
    pub(super) cluster: &'a ClusterName,
    /// Whether the member is of Karmada's inventory.
    pub(super) is_karmadas: bool,
}

/// An answer of the host's authorizer.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Allowed(String),
    Refused(String),
    /// The caller may not ask.
    NotAnswered(String),
}

impl ProxyRight<'_> {
    pub(super) async fn verdict(&self, verb: &str, grant: &impl Fn() -> String) -> Result<Verdict, Failure> {
        let needed = hops::proxy_verb(verb);
        let own = self.ask(needed, path::PROXY_GROUP, path::PROXY_VERSION).await?;
        if !self.is_karmadas {
            return Ok(of_own(&own, &format!("{needed} clusters/proxy of {}", self.cluster), grant));
        }
        let karmada = self.ask(needed, KARMADA_GROUP, GRANT_VERSION).await?;
        Ok(of_both(&own, &karmada, &format!("{needed} clusters/proxy of {}", self.cluster), grant))
    }

    /// Upgrades need create whatever their method.
    async fn ask(&self, needed: &str, group: &str, version: &str) -> Result<Answer, Failure> {
        let attributes = json!({"resourceAttributes": {
            "group": group, "version": version, "resource": "clusters",
            "subresource": "proxy", "name": self.cluster.as_str(), "verb": needed,
        }});
        // Every user may ask about their own rights.
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

fn of_both(own: &Answer, karmada: &Answer, what: &str, grant: &impl Fn() -> String) -> Verdict {
    let (ours, theirs) = (path::PROXY_GROUP, KARMADA_GROUP);
    match (own, karmada) {
        (Answer::Allowed(reason), Answer::Allowed(_)) => {
            Verdict::yes(hops::with_reason(&format!("{what}, granted in {ours} and in {theirs}"), reason))
        }
        (Answer::Allowed(reason), _) => {
            Verdict::yes(hops::with_reason(&format!("{what}, granted in {ours}"), reason))
        }
        (Answer::Refused(_), Answer::Allowed(reason)) => Verdict::no(
            hops::with_reason(
                &format!(
                    "may not {what} through the host: the grant in {theirs} counts at the direct endpoint only"
                ),
                reason,
            ),
            grant(),
        ),
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

    fn both(own: &Answer, karmada: &Answer) -> (bool, String) {
        match of_both(own, karmada, "get clusters/proxy of m1", &|| "grant it".to_owned()) {
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
                    "may not get clusters/proxy of m1 through the host: the grant in cluster.karmada.io counts at the direct endpoint only: rule (grant it)",
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
            let (is_yes, why) = both(&own, &karmada);
            assert_eq!((is_yes, why.as_str()), expected);
        }
    }

    #[test]
    fn members_of_our_own_have_one_group_only() {
        let verdict = of_own(&allowed("rule"), "get clusters/proxy of m1", &String::new);
        assert_eq!(verdict, Verdict::Yes("get clusters/proxy of m1: rule".to_owned()));
    }
}
