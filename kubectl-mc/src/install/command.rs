//! Implements `kubectl mc install`: checks the host, validates every object by a dry run, applies them in a
//! safe order, and waits until the sidecar is available.

use clap::{ArgMatches, Args, Command};
use kubectl_mc_api::manifests::Certificates;
use kubectl_mc_api::names;
use serde_json::Value;

use crate::apply::delete::Delete;
use crate::apply::diff;
use crate::apply::object::Object;
use crate::apply::recorded_flags::RecordedFlags;
use crate::apply::{Applied, Apply, Change};
use crate::cli::{Flags, InstallArgs};
use crate::cluster::connection::{self, Connection};
use crate::cluster::context::HostOptions;
use crate::env::Env;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::install::certificate_rotation::CertificateRotation;
use crate::install::direct::{self, Unexposed};
use crate::install::plan::InstallPlan;
use crate::install::protection;
use crate::install::remote;
use crate::install::wait::{self, Deadline};
use crate::install::{HOST, InstallError, RUNS_ON, host, place};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::settings::Settings;

pub(crate) fn run(
    arguments: &InstallArgs,
    recorded: RecordedFlags,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let plan = InstallPlan::of(arguments, recorded)?;
    if arguments.output.is_some() {
        let objects = plan.host()?;
        printer.out(&diff::documents(&objects));
        return Ok(ExitStatus::Success);
    }
    let options = Settings::host_of(flags, env)?;
    connection::run(install(arguments, plan, &options, env, printer))?;
    Ok(ExitStatus::Success)
}

/// The flags of an installation, without those that choose how this run goes.
pub(crate) fn recorded(matches: &ArgMatches) -> RecordedFlags {
    let left_out = ["namespace", "dry-run", "diff", "output", "reset-flags", "force-conflicts", "timeout"];
    RecordedFlags::of(matches, &InstallArgs::augment_args(Command::new("install")), &left_out)
}

async fn install(
    arguments: &InstallArgs,
    plan: InstallPlan,
    options: &HostOptions,
    env: &Env,
    printer: &Printer,
) -> Result<(), Failure> {
    let progress = Progress::new(printer);
    let applying = Apply { dry_run: false, force_conflicts: arguments.force_conflicts };
    let judging = Apply { dry_run: true, ..applying };
    let deadline = Deadline::after(arguments.timeout);

    let step = progress.step("checking the host");
    let host = connection::connect(options, env).await?;
    let remote = match &plan.run_on {
        Some(context) => Some(remote::connect(context, options, env).await?),
        None => None,
    };
    let runs_on = remote.as_ref().unwrap_or(&host);
    let checked = host::check(&host.client, &plan.parameters.namespace).await;
    checked.map_err(|error| error.from(host.target(HOST)))?;
    place::check(&host, &plan).await?;
    let host_uid = match &remote {
        Some(remote) => {
            let hint = "run the sidecars of this host in another namespace: -n NAME";
            place::check_elsewhere(&host, remote, &plan.parameters.namespace, hint).await?
        }
        None => String::new(),
    };
    if remote.is_some() {
        remote::check_server(&host, arguments.host_server.as_deref()).await?;
    }
    let plan = direct::with_known_address(plan, runs_on).await?;
    let mut objects = plan.host()?;
    let kept = host::keep_foreign_namespaces(&host.client, &mut objects).await?;
    let (elsewhere, kept_elsewhere) = match &remote {
        Some(remote) => objects_elsewhere(&plan, "", &host_uid, remote).await?,
        None => (Vec::new(), Vec::new()),
    };
    let judged = judging.all(host.target(HOST), objects.clone()).await?;
    let judged_elsewhere = judging.all(runs_on.target(RUNS_ON), elsewhere).await?;
    step.done();
    let kept_elsewhere = kept_elsewhere.iter().map(|namespace| format!("{namespace} of the {RUNS_ON}"));
    for namespace in kept.into_iter().chain(kept_elsewhere) {
        printer.note_line(&format!(
            "namespace {namespace} was not created by kubectl-mc and is left unchanged, including its pod security level"
        ));
    }
    let judged = judged.into_iter().chain(judged_elsewhere).collect::<Vec<_>>();
    let lacking = plan.flags.lacking(&judged);
    if !lacking.is_empty() && !arguments.reset_flags {
        let command = format!(
            "{} install -n {} {}",
            host.cluster.kubectl_mc(),
            plan.parameters.namespace,
            plan.flags.and(&lacking)
        );
        let refused = InstallError::LackingFlags { flags: lacking.to_string(), command };
        if !arguments.dry_run && !arguments.diff {
            return Err(refused.into());
        }
        printer.note_line(&format!("warning: {refused}"));
    }
    let mut report = report(printer);
    let mut plan = plan;
    if plan.lacks_address() && !arguments.dry_run && !arguments.diff {
        let mut step = progress.step("waiting for the load balancer");
        plan = direct::with_new_address(plan, runs_on, applying, &deadline, &mut step, &mut report).await?;
        objects = plan.host()?;
        host::keep_foreign_namespaces(&host.client, &mut objects).await?;
        step.done();
    }
    let handover = CertificateRotation::find(host.target(HOST), &plan).await?;
    let unexposed = Unexposed::find(&host, remote.as_ref(), &plan).await?;
    if arguments.dry_run {
        judged.iter().for_each(|one| printer.out_line(&one.line(true)));
        let delete = Delete { dry_run: true, timeout: arguments.timeout };
        handover.finish(delete, |one| delete.print("", one, printer)).await?;
        unexposed.delete(delete, |one| delete.print("", one, printer)).await?;
        return Ok(());
    }
    if arguments.diff {
        printer.out(&diff::unified(&judged));
        let delete = Delete { dry_run: true, timeout: arguments.timeout };
        let report = |one: &Object| printer.note_line(&format!("{one} would be deleted"));
        handover.finish(delete, report).await?;
        unexposed.delete(delete, report).await?;
        return Ok(());
    }

    // The API groups are registered once a sidecar serves them, because an APIService without a server
    // disturbs every client.
    let is_registration = |object: &Value| object["kind"] == "APIService";
    let mut registrations =
        objects.split_off(objects.iter().position(is_registration).unwrap_or(objects.len()));
    let is_program = |object: &Value| object["kind"] == "Deployment";
    let program = objects.iter().position(is_program).map(|at| objects.split_off(at));
    let step = progress.step("applying");
    let mut applied = applying.each(host.target(HOST), objects, &mut report).await?;
    if handover.is_due() {
        let mut step = progress.step("making the host trust the old and the new certificates");
        handover.trust_both(&deadline, &mut step).await?;
        step.done();
        if plan.parameters.values.certificates == Certificates::SelfManaged {
            // Otherwise cert-manager would remove the sidecars' own authority again.
            let registrations = std::mem::take(&mut registrations);
            applied.extend(applying.each(host.target(HOST), registrations, &mut report).await?);
        }
    }
    applying.each(host.target(HOST), program.into_iter().flatten(), &mut report).await?;
    if let Some(remote) = &remote {
        let kubeconfig = remote::kubeconfig(
            &host,
            arguments.host_server.as_deref(),
            &plan.parameters.namespace,
            &deadline,
        )
        .await?;
        let (elsewhere, _) = objects_elsewhere(&plan, &kubeconfig, &host_uid, remote).await?;
        applying.each(remote.target(RUNS_ON), elsewhere, &mut report).await?;
    }
    step.done();

    let mut step = progress.step("waiting for the sidecars");
    let namespace = &plan.parameters.namespace;
    let uninstall = place::uninstall(&host, namespace, plan.run_on.as_deref());
    wait::deployment(runs_on, &uninstall, namespace, &deadline, &mut step).await?;
    step.done();
    let delete = Delete { dry_run: false, timeout: arguments.timeout };
    handover.finish(delete, |one| delete.print("", one, printer)).await?;
    unexposed.delete(delete, |one| delete.print("", one, printer)).await?;
    applied.extend(applying.each(host.target(HOST), registrations, &mut report).await?);
    protection::restore(host.target(HOST), &applied, printer).await?;
    let mut step = progress.step("waiting for the host to reach the sidecars");
    wait::registration(&host.client, plan.reach.as_ref(), &deadline, &mut step).await?;
    step.done();
    printer.note(&next(&host));
    Ok(())
}

/// The objects of the cluster that runs the sidecars for another host, without the foreign namespaces, and the
/// names of those.
async fn objects_elsewhere(
    plan: &InstallPlan,
    kubeconfig: &str,
    host_uid: &str,
    remote: &Connection,
) -> Result<(Vec<Value>, Vec<String>), InstallError> {
    let mut objects = plan.remote(kubeconfig)?;
    for program in objects.iter_mut().filter(|object| object["kind"] == "Deployment") {
        program["metadata"]["annotations"][names::HOST_UID] = host_uid.into();
    }
    let kept = host::keep_foreign_namespaces(&remote.client, &mut objects).await?;
    Ok((objects, kept))
}

/// Prints each object once it is applied.
fn report(printer: &Printer) -> impl FnMut(&Applied) {
    let mut printed: Vec<Object> = Vec::new();
    move |one| {
        // The Service of a load balancer is applied before all other objects, and again with them.
        let is_again =
            one.outcome() == Change::Unchanged && printed.iter().any(|before| before.is_same(&one.object));
        if !is_again {
            printer.out_line(&one.line(false));
            printed.push(one.object.clone());
        }
    }
}

fn next(host: &Connection) -> String {
    format!(
        "{} is served. Next: {} join NAME --member-context=CONTEXT\n",
        names::API_SERVICE,
        host.cluster.kubectl_mc()
    )
}
