//! Syncs one member once: derives its rules from the host's RBAC and writes its roles and bindings.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kubectl_mc_api::access::{Because, Impersonator, MemberRules, Policy, Subject};
use kubectl_mc_api::member_cluster::{Impersonation, Users};
use kubectl_mc_api::{ClusterName, Origin};
use tokio::time::timeout;
use tracing::info;

use super::super::conditions::Finding;
use super::member::{self, Applied};
use super::observed_users::{self, MemberUsers, Verified};
use super::reviews::Reviews;
use crate::controllers::kube_error;
use crate::outbound::tunnel::registry::AgentTunnels;
use crate::outbound::upstream::sidecar_client;

/// A subject that the host's RBAC authorizes, and why.
pub(super) type Entitled = (Subject, Because);

/// The input of a sync.
pub(super) struct Sync {
    pub(super) cluster: ClusterName,
    pub(super) host: kube::Client,
    pub(super) namespace: Arc<str>,
    /// The inventory that serves the member.
    pub(super) origin: Origin,
    /// The account that writes the rights.
    pub(super) manager: Arc<Secret>,
    pub(super) admin_groups: Arc<[String]>,
    pub(super) impersonation: Impersonation,
    pub(super) entitled: Vec<Entitled>,
    pub(super) note: Option<&'static str>,
    pub(super) observed: MemberUsers,
    /// Reviews of earlier syncs.
    pub(super) reviews: Reviews,
    pub(super) tunnels: Arc<AgentTunnels>,
}

/// The result of a sync.
pub(super) struct Outcome {
    pub(super) finding: Finding,
    /// Whether to retry soon.
    pub(super) retry: bool,
    /// The reviews, if all have been answered, even if the member was not reached.
    pub(super) reviews: Option<Reviews>,
}

impl Sync {
    pub(super) async fn run(self) -> Outcome {
        let mut reviews = None;
        let (finding, retry) = match timeout(TIMEOUT, self.attempt(&mut reviews)).await {
            Ok(Ok(done)) => done,
            Ok(Err(finding)) => (finding, true),
            Err(_) => (Finding::no("SyncFailed", "the member did not answer in time"), true),
        };
        Outcome { finding, retry, reviews }
    }

    /// The finding, and whether to retry soon.
    async fn attempt(self, reviewed: &mut Option<Reviews>) -> Result<(Finding, bool), Finding> {
        let Self { ref cluster, ref host, ref manager, ref impersonation, .. } = self;
        // The client is created for each sync, because it is unused between syncs and there are hundreds of
        // members.
        let member = sidecar_client::client(cluster, manager, &self.tunnels).map_err(|error| {
            let message = format!("Secret {} cannot be used: {error}", manager.name_any());
            Finding::no("ManagerUnusable", message)
        })?;
        let impersonator = impersonator(self.origin, manager);
        let rights = impersonator.rights;
        let (read, verified) = tokio::join!(
            member::read(&member, rights),
            self.observed.clone().verified(
                host,
                (cluster, self.origin),
                &self.entitled,
                self.reviews,
                Timestamp::now()
            ),
        );
        let verified = verified.map(|Verified { allowed, pruned, reviews }| {
            *reviewed = Some(reviews);
            (allowed, pruned)
        });
        let (policy, actual) = read.map_err(|error| failed(&error))?;
        let (came, pruned) = verified.map_err(|error| {
            let message = format!("cannot list the host's RBAC: {error}");
            Finding::no("SyncFailed", message)
        })?;
        let entitled = self.entitled.iter().map(|(subject, because)| (subject, because.clone()));
        let rules = MemberRules::new(&self.admin_groups, impersonation, &policy, entitled, &came);
        let written = member::apply(&member, rights, &rules.objects(&impersonator), &actual).await;
        let Applied { written, homeless } = written.map_err(|error| failed(&error))?;
        if written > 0 {
            info!(%cluster, written, rights = rules.summary(), "updated the RBAC objects on the member");
        }
        // Entries are deleted only after their rights on the member are removed.
        observed_users::prune(host, &self.namespace, cluster, &self.observed, pruned).await;
        let finding = Finding::yes("Synced", message(&rules, impersonation, &policy, self.note, &homeless));
        // Retry until the member has the missing namespaces and has consented to `users: Any`.
        let retry = !homeless.is_empty() || lacks_consent(impersonation, &policy);
        Ok((if homeless.is_empty() { finding } else { finding.warning() }, retry))
    }
}

/// The account that impersonates callers on the member.
fn impersonator(origin: Origin, manager: &Secret) -> Impersonator {
    match origin {
        Origin::MemberCluster | Origin::KubeAdmiral => Impersonator::default(),
        Origin::Karmada => Impersonator::of_karmada(&manager.namespace().unwrap_or_default()),
    }
}

/// The message of the condition. It is stable as long as nothing changes.
fn message(
    rules: &MemberRules,
    impersonation: &Impersonation,
    policy: &Policy,
    note: Option<&str>,
    homeless: &[String],
) -> String {
    let mut text = format!("may be: {}", rules.summary());
    if lacks_consent(impersonation, policy) {
        text.push_str(
            "; users: Any is not allowed by the member's ConfigMap kubectl-mc-manager, so users are listed",
        );
    }
    if !homeless.is_empty() {
        let shown = homeless.iter().take(MAX_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        text.push_str(&format!(
            "; service accounts of these namespaces may not, as the member does not have them or deletes them: {shown}"
        ));
    }
    if let Some(note) = note {
        text.push_str(&format!("; {note}"));
    }
    if !rules.left_out.is_empty() {
        let one = |(subject, left): (&Subject, &kubectl_mc_api::access::LeftOut)| {
            format!("{subject} ({})", left.why)
        };
        let shown: Vec<_> = rules.left_out.iter().take(MAX_SHOWN).map(one).collect();
        text.push_str(&format!("; left out: {}", shown.join(", ")));
        if rules.left_out.len() > MAX_SHOWN {
            text.push_str(&format!(" and {} more", rules.left_out.len() - MAX_SHOWN));
        }
    }
    text
}

/// Whether the host has chosen `users: Any` without the member's consent.
fn lacks_consent(impersonation: &Impersonation, policy: &Policy) -> bool {
    impersonation.users == Users::Any && !policy.any_user
}

fn failed(error: &kube::Error) -> Finding {
    let reason = match error {
        kube::Error::Api(status) if status.code == 401 => "ManagerRefused",
        kube::Error::Api(status) if status.code == 403 => "Forbidden",
        kube::Error::Api(_) => "SyncFailed",
        _ => "Unreachable",
    };
    Finding::no(reason, format!("the member's rights cannot be written: {}", kube_error::message(error)))
}

/// The timeout of a whole sync; the member may be distant.
const TIMEOUT: Duration = Duration::from_secs(60);
const MAX_SHOWN: usize = 10;
