//! Implements `kubectl mc authz apply`: validates the objects of the host by a dry run, then applies them. It
//! takes over the rules of roles that a registration wrote, which narrows them. The sidecar's account gets its
//! rights only after the host enforces the policy that limits them.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{keeper, objects};
use crate::apply::{Apply, ApplyError, diff};
use crate::cli::AuthzApplyArgs;
use crate::cluster::connection::Connection;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::printer::Printer;

pub(super) async fn run(
    arguments: &AuthzApplyArgs,
    host: &Connection,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let version = objects::version(host).await?;
    let wanted = objects::wanted(&arguments.objects, version, host).await?;
    let applying = Apply { dry_run: false, force_conflicts: true };
    // Validates every object before any change.
    let judged = Apply { dry_run: true, ..applying }.all(host, wanted.clone()).await?;
    if arguments.diff {
        printer.out(&diff::unified(&judged));
        return Ok(ExitStatus::Success);
    }
    if arguments.dry_run {
        judged.iter().for_each(|one| printer.out_line(&one.line(true)));
        return Ok(ExitStatus::Success);
    }
    let (rights, others): (Vec<_>, Vec<_>) = wanted.into_iter().partition(keeper::is_right);
    applying.print_each("", host, others, printer).await?;
    if !rights.is_empty() {
        enforced(host).await?;
        applying.print_each("", host, rights, printer).await?;
    }
    Ok(ExitStatus::Success)
}

/// Waits until the host enforces the policy on the sidecar's account. A kube-apiserver reads a new policy after a
/// moment.
async fn enforced(host: &Connection) -> Result<(), Failure> {
    let begin = Instant::now();
    let (mut refusals, by_policy) = (0, format!("'{}'", keeper::NAME));
    while refusals < REFUSALS {
        let trying = Apply { dry_run: true, force_conflicts: true };
        match trying.all(host, [keeper::probe()]).await {
            Err(ApplyError::Refused { status, .. }) if status.message.contains(&by_policy) => refusals += 1,
            Err(error) => return Err(error.into()),
            Ok(_) => refusals = 0,
        }
        if begin.elapsed() > ENFORCED {
            return Err(Failure::new(format!(
                "the host does not enforce policy {} after {} s: the sidecar's account gets no rights",
                keeper::NAME,
                ENFORCED.as_secs()
            ))
            .with_hint("run the same command again"));
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

/// A load balancer may forward to a kube-apiserver that has not read the policy yet.
const REFUSALS: usize = 5;
const PAUSE: Duration = Duration::from_millis(200);
pub(super) const ENFORCED: Duration = Duration::from_secs(60);
