//! Implements `kubectl mc authz apply`: validates the objects of the host by a dry run, then applies them. It
//! takes over the rules of roles that a registration wrote, which narrows them.

use super::objects;
use crate::apply::{Apply, diff};
use crate::cli::AuthzApplyArgs;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::join::side::Side;
use crate::printer::Printer;

pub(super) async fn run(
    arguments: &AuthzApplyArgs,
    host: &Side,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let version = objects::version(host).await?;
    let wanted = objects::wanted(&arguments.objects, version, host).await?;
    let applying = Apply { dry_run: false, force_conflicts: true };
    // Validates every object before any change.
    let judged = Apply { dry_run: true, ..applying }.all(host.target(), wanted.clone()).await?;
    if arguments.diff {
        printer.out(&diff::unified(&judged));
        return Ok(ExitStatus::Success);
    }
    let applied = match arguments.dry_run {
        true => judged,
        false => applying.all(host.target(), wanted).await?,
    };
    applied.iter().for_each(|one| printer.out_line(&one.line(arguments.dry_run)));
    Ok(ExitStatus::Success)
}
