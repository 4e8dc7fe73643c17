//! Computes condition `CredentialValid` from the state of a member's credential. It is True only when the
//! member has accepted the credential.

use jiff::Timestamp;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::enrollment::Enrollment;
use kubectl_mc_api::names::ENROLLMENT_UNTIL;

use super::held::Held;
use crate::controllers::conditions::Finding;
use crate::controllers::health::probe::Verdict;
use crate::host::token::Credential;
use crate::members::inventory::fleet::Registered;
use crate::members::inventory::hub::credential_secret;

/// Why a token is not renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The input of the condition.
pub(super) struct Known<'a> {
    pub(super) cluster: &'a ClusterName,
    pub(super) registered: &'a Registered,
    pub(super) member: &'a Held,
    pub(super) manager: &'a Held,
    pub(super) verdict: Option<&'a Verdict>,
    /// Why the member's agent could not enroll it.
    pub(super) not_enrolled: Option<&'a str>,
    /// Part of a token's lifetime after which a missing renewal is a warning.
    pub(super) overdue: f64,
    pub(super) now: Timestamp,
}

impl Known<'_> {
    /// The condition; `None` until the member is probed, because the previous condition may still hold.
    pub(super) fn finding(&self) -> Option<Finding> {
        if let Some(unusable) = self.unusable() {
            return Some(unusable);
        }
        let secret = self.secret();
        Some(match self.verdict? {
            Verdict::Refused => {
                Finding::no("Refused", format!("the member refuses the {} in Secret {secret}", self.kind()))
            }
            Verdict::Anonymous => Finding::no(
                "NotRecognized",
                format!("the member does not know the authority of the certificate in Secret {secret}"),
            ),
            Verdict::Accepted => self.accepted(),
        })
    }

    /// The Secret with the credential.
    fn secret(&self) -> String {
        credential_secret(self.registered.origin, self.cluster)
    }

    /// Why there is no usable credential, if there is none.
    fn unusable(&self) -> Option<Finding> {
        let secret = self.secret();
        if let (Err(why), true) = (&self.registered.way, self.registered.origin.is_hub()) {
            return Some(Finding::no("NoConnection", &**why));
        }
        if self.registered.connection.is_none() {
            return Some(Finding::no("NoSecret", format!("Secret {secret} does not exist")));
        }
        if let Some(finding) = self.enrollment() {
            return Some(finding);
        }
        if self.member.credential == Credential::None {
            let message = format!("Secret {secret} has neither a token nor a client certificate");
            return Some(Finding::no("NoCredential", message));
        }
        if let Err(why) = &self.registered.way {
            return Some(Finding::no("InvalidSecret", &**why));
        }
        let ends = self.member.credential.ends()?;
        if ends > self.now {
            return None;
        }
        let why = match (self.no_renewal(), &self.member.trouble) {
            (Some((_, why)), _) => format!("; {why}"),
            (None, Some(trouble)) => format!("; it could not be renewed: {}", trouble.message),
            (None, None) => String::new(),
        };
        let message = format!("the {} in Secret {secret} expired at {ends}{why}", self.kind());
        Some(Finding::no("Expired", message))
    }

    /// The state of the enrollment, for a member without a credential.
    fn enrollment(&self) -> Option<Finding> {
        let again =
            format!("an admin of the host opens it again: kubectl mc join {} --agent --enroll", self.cluster);
        Some(match (self.registered.enrollment(self.now)?, self.not_enrolled) {
            (Enrollment::Open(until), None) => Finding::no(
                "EnrollmentOpen",
                format!(
                    "waiting for the agent to enroll the member until {until:.0}: an admin of the member applies the \
                     manifest of kubectl mc join {} --agent --enroll",
                    self.cluster
                ),
            ),
            (Enrollment::Open(until), Some(why)) => {
                Finding::no("EnrollmentFailed", format!("{why}; it is tried again until {until:.0}"))
            }
            (Enrollment::Over(until), _) => {
                Finding::no("EnrollmentExpired", format!("the enrollment ended at {until:.0}; {again}"))
            }
            (Enrollment::Invalid, _) => Finding::no(
                "EnrollmentExpired",
                format!(
                    "annotation {ENROLLMENT_UNTIL} of Secret {} is no time within the next hour; {again}",
                    self.cluster.member_secret()
                ),
            ),
        })
    }

    fn accepted(&self) -> Finding {
        let kind = self.kind();
        let accepts = format!("the member accepts the {kind}");
        if let hub = self.registered.origin
            && hub.is_hub()
        {
            let message = format!("{accepts} in Secret {}, which {} keeps", self.secret(), hub.title());
            return Finding::yes("Accepted", message);
        }
        let Credential::Token(token) = &self.member.credential else {
            let ends = self.member.credential.ends().map(|ends| format!(", which expires at {ends}"));
            let message = format!(
                "{accepts}{}; it is not renewed and cannot be revoked: a token of a service account would be",
                ends.unwrap_or_default()
            );
            return Finding::yes("ClientCertificate", message).warning();
        };
        let Some(life) = token.life else {
            let message = format!("{accepts}, which never expires: one by TokenRequest would be renewed");
            return Finding::yes("NoExpiry", message).warning();
        };
        let ends = life.ends;
        let held = [self.member, self.manager];
        if let Some((reason, why)) = self.no_renewal() {
            let finding =
                Finding::yes(reason, format!("{accepts}, which expires at {ends} and is not renewed; {why}"));
            return if reason == "NoManager" && self.now < life.at(self.overdue) {
                finding
            } else {
                finding.warning()
            };
        }
        if token.account.is_none() {
            let message =
                format!("{accepts}, which expires at {ends} and is of no service account: it is not renewed");
            return Finding::yes("NotRenewable", message).warning();
        }
        let late =
            held.iter().filter_map(|held| held.token()?.life).find(|life| life.at(self.overdue) <= self.now);
        let trouble = held.iter().find_map(|held| held.trouble.as_ref());
        match (late, trouble) {
            (Some(late), trouble) => {
                let why = trouble.map(|trouble| format!(": {}", trouble.message)).unwrap_or_default();
                let message =
                    format!("a token expires at {} and could not be renewed in time{why}", late.ends);
                Finding::yes("RenewalOverdue", message).warning()
            }
            (None, Some(trouble)) => {
                let message =
                    format!("{accepts}, which expires at {ends}; it cannot be renewed: {}", trouble.message);
                Finding::yes(trouble.reason, message).warning()
            }
            (None, None) => {
                Finding::yes("Accepted", format!("{accepts}, which expires at {ends} and is renewed before"))
            }
        }
    }

    /// Why no renewal is possible: the reason for the condition, and the message.
    fn no_renewal(&self) -> Option<(&'static str, String)> {
        let secret = self.cluster.manager_secret();
        match (&self.registered.manager, &self.manager.credential) {
            (None, _) => {
                Some(("NoManager", format!("there is no Secret {secret} whose account could renew it")))
            }
            (Some(_), Credential::None) => Some(("NoManager", format!("Secret {secret} has no credential"))),
            (Some(_), credential) if credential.is_over(self.now) => Some((
                "ManagerExpired",
                format!(
                    "the credential in Secret {secret}, which would renew it, has expired; an admin of both runs: \
                     kubectl mc join {} --renew",
                    self.cluster
                ),
            )),
            _ => None,
        }
    }

    fn kind(&self) -> &'static str {
        match self.member.credential {
            Credential::Certificate(_) => "client certificate",
            Credential::Token(_) | Credential::None => "token",
        }
    }
}
