//! Implements `kubectl mc uninstall`: deletes what `install` created, in reverse order. The members'
//! registrations contain credentials that exist nowhere else, so they are deleted only after a confirmation.

use crate::apply::delete::Delete;
use crate::cli::{Flags, UninstallArgs};
use crate::cluster::connection::{self};
use crate::cluster::context::HostOptions;
use crate::confirm::confirm;
use crate::env::Env;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::hub_api;
use crate::install::HOST;
use crate::install::cleanup;
use crate::install::place;
use crate::install::protection;
use crate::install::remote;
use crate::printer::Printer;
use crate::progress::Progress;
use crate::settings::Settings;

pub(crate) fn run(
    arguments: &UninstallArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    connection::run(uninstall(arguments, &Settings::host_of(flags, env)?, env, printer))?;
    Ok(ExitStatus::Success)
}

async fn uninstall(
    arguments: &UninstallArgs,
    options: &HostOptions,
    env: &Env,
    printer: &Printer,
) -> Result<(), Failure> {
    let UninstallArgs { namespace, run_on, yes, dry_run, timeout } = arguments;
    let progress = Progress::new(printer);
    let delete = Delete { dry_run: *dry_run, timeout: *timeout };
    let step = progress.step("checking the host");
    let host = connection::connect(HOST, options, env).await?;
    let remote = match run_on {
        Some(context) => Some(remote::connect(context, options, env).await?),
        None => None,
    };
    place::check_removal(&host, namespace, run_on.as_deref()).await?;
    if let Some(remote) = &remote {
        let hint = "without --run-on, only the objects on the host are removed";
        place::check_elsewhere(&host, remote, namespace, hint).await?;
    }
    let members = cleanup::members(&host.client, namespace).await?;
    let ours = cleanup::host(&host, namespace).await?;
    let elsewhere = match &remote {
        Some(remote) => cleanup::elsewhere(remote, namespace).await?,
        None => Vec::new(),
    };
    step.done();
    if remote.is_none() && place::reach_elsewhere(&host.client, namespace).await?.is_some() {
        printer.note("the sidecars run in another cluster; --run-on=CONTEXT removes them there too\n");
    }
    if !members.clusters.is_empty() {
        printer.note_line(&format!(
            "registered members, whose objects for this host stay on them (`{} unjoin NAME --member-context=CONTEXT` removes both): {}",
            host.cluster.kubectl_mc(),
            members.clusters.join(", ")
        ));
        if !members.accesses.is_empty() {
            printer.note_line(&format!(
                "ClusterAccesses, whose bindings on a member may stay there until an unjoin too: {}",
                members.accesses.join(", ")
            ));
        }
        if !yes && !dry_run {
            confirm("Remove their registrations and credentials from the host?", printer)?;
        }
    }
    hub_api::put_all_back(&host, *dry_run, printer).await?;
    let step = progress.step("removing");
    // Running programs are deleted first, so that they do not recreate anything.
    let (running, resting): (Vec<_>, Vec<_>) =
        ours.into_iter().partition(|object| object["kind"] == "Deployment" || object["kind"] == "APIService");
    let mut is_installed = delete.print_each("", &host, members.objects.into_iter(), printer).await?;
    for objects in [running, resting] {
        if !dry_run {
            protection::lift(&host, &objects).await?;
        }
        is_installed |= delete.print_each("", &host, objects.into_iter(), printer).await?;
    }
    if let Some(remote) = &remote {
        is_installed |= delete.print_each("", remote, elsewhere.into_iter(), printer).await?;
    }
    step.done();
    if !is_installed {
        printer.note("mc-sidecar is not installed\n");
    }
    Ok(())
}
