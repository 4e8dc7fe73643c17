//! Writes the objects of a join in order. The credential comes last: the proxy stays off until the member's side
//! exists and the sidecar has reached the member.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubectl_mc_api::names::{IMPERSONATOR, MANAGER, NAMESPACE};
use kubectl_mc_api::{ClusterName, path};
use serde_json::{Value, json};

use super::endpoint::Endpoint;
use super::objects;
use super::side::{Side, SideError};
use super::{token_policy, wait};
use crate::apply::delete::{Delete, DeleteError};
use crate::apply::{Applied, Apply, ApplyError};
use crate::printer::Printer;
use crate::progress::{Progress, Step};

/// Both sides, and what is to be made.
pub(crate) struct Steps<'a> {
    pub(crate) name: &'a ClusterName,
    pub(crate) host: &'a Side,
    pub(crate) member: &'a Side,
    pub(crate) endpoint: &'a Endpoint,
    /// The sidecar's, on the host.
    pub(crate) namespace: &'a str,
    /// The MemberCluster.
    pub(crate) registration: Value,
    /// The member's objects.
    pub(crate) member_objects: Vec<Value>,
    /// What a join before made there and is not wanted any more.
    pub(crate) surplus: Vec<Value>,
    pub(crate) token_life: Duration,
    pub(crate) timeout: Duration,
    pub(crate) printer: &'a Printer,
}

impl Steps<'_> {
    pub(crate) async fn run(self) -> Result<(), StepError> {
        let Self {
            name,
            host,
            member,
            endpoint,
            namespace,
            registration,
            member_objects,
            surplus,
            token_life,
            timeout,
            printer,
        } = self;
        let progress = Progress::new(printer);
        let apply = Apply { dry_run: false, force_conflicts: true };

        let step = progress.step(&format!("registering {name} on the host"));
        let secret = name.member_secret();
        // The Secret first, so that a cluster that is there can be tried at once.
        let mut written = connection(host, namespace, &secret, endpoint, apply).await?;
        written.extend(apply.all(host.target(), [registration]).await?);
        ended(step, "host", &written, printer);

        let mut step = progress.step(&format!("waiting until the sidecar reaches {}", endpoint.server));
        let tried = |cluster: &Value| {
            cluster["status"]["server"].as_str().is_none_or(|server| server == endpoint.server)
        };
        wait::until_true(host, name, &["Reachable"], timeout, &mut step, tried).await?;
        step.done();

        let step = progress.step("preparing the member");
        // The policy on tokens waits for the first token, which tells it the audiences.
        let (mut token_policies, member_objects): (Vec<_>, Vec<_>) =
            member_objects.into_iter().partition(token_policy::is_policy);
        let written = apply.all(member.target(), member_objects).await?;
        let delete = Delete { dry_run: false, timeout };
        let deleted = delete.all(member.target(), surplus.into_iter()).await?;
        ended(step, "member", &written, printer);
        deleted.iter().for_each(|one| printer.out_line(&format!("member: {one} deleted")));

        let step = progress.step("giving the sidecar its tokens");
        let manager = name.manager_secret();
        let written = connection(host, namespace, &manager, endpoint, apply).await?;
        let mut limited = Vec::new();
        for (account, secret) in [(MANAGER, &manager), (IMPERSONATOR, &secret)] {
            let Granted { token, audiences } = token(member, account, token_life).await?;
            token_policies.iter_mut().for_each(|policy| token_policy::set_audiences(policy, &audiences));
            // Before the host has the manager's token.
            limited.extend(apply.all(member.target(), std::mem::take(&mut token_policies)).await?);
            host.merge(&path::secret(namespace, secret), &json!({"data": {"token": STANDARD.encode(token)}}))
                .await?;
        }
        ended(step, "host", &written, printer);
        print_applied("member", &limited, printer);

        let mut step = progress.step(&format!("waiting until {name} is ready"));
        wait::until_true(host, name, &["AuthSynced", "Ready"], timeout, &mut step, |_| true).await?;
        step.done();
        Ok(())
    }
}

/// Writes the connection into a Secret; a credential that is there stays only beside the same connection.
async fn connection(
    host: &Side,
    namespace: &str,
    secret: &str,
    endpoint: &Endpoint,
    apply: Apply,
) -> Result<Vec<Applied>, StepError> {
    let path = path::secret(namespace, secret);
    if let Some(existing) = host.get(&path).await?
        && objects::leads_elsewhere(&existing, endpoint)
    {
        host.merge(&path, &json!({"data": {"token": null, "tls.crt": null, "tls.key": null}})).await?;
    }
    Ok(apply.all(host.target(), [objects::secret(namespace, secret, endpoint)]).await?)
}

/// What a TokenRequest gave.
struct Granted {
    token: String,
    /// Those that the member's kube-apiserver filled in, its own.
    audiences: Vec<String>,
}

/// A token of an account of the member's sidecar namespace (TokenRequest).
async fn token(member: &Side, account: &str, life: Duration) -> Result<Granted, StepError> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": life.as_secs()},
    });
    let answer = member.create(&path, &request).await?;
    let token = answer["status"]["token"].as_str().filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| StepError::NoToken(account.to_owned()))?.to_owned();
    let audiences = serde_json::from_value(answer["spec"]["audiences"].clone()).unwrap_or_default();
    Ok(Granted { token, audiences })
}

/// Ends a step and prints what it has written.
fn ended(step: Step<'_>, side: &str, written: &[Applied], printer: &Printer) {
    step.done();
    print_applied(side, written, printer);
}

fn print_applied(side: &str, written: &[Applied], printer: &Printer) {
    for applied in written {
        printer.out_line(&format!("{side}: {}", applied.line(false)));
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    #[error(transparent)]
    Side(#[from] SideError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    Delete(#[from] DeleteError),
    #[error(transparent)]
    Wait(#[from] wait::WaitError),
    #[error("the member returned no token for its service account {0}")]
    NoToken(String),
}

impl StepError {
    pub(crate) fn hint(&self) -> Option<String> {
        use crate::error::Explain;
        match self {
            Self::Side(error) => error.hint(),
            Self::Apply(error) => error.hint(),
            Self::Delete(error) => error.hint(),
            Self::Wait(error) => error.hint(),
            Self::NoToken(_) => None,
        }
    }
}
