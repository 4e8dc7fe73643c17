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
use crate::error::{CommandLine, Failure};
use crate::exit::ExitStatus;
use crate::install::certificate_rotation::CertificateRotation;
use crate::install::direct::{self, Unexposed};
use crate::install::plan::InstallPlan;
use crate::install::protection;
use crate::install::remote;
use crate::install::wait::{self, Deadline};
use crate::install::{HOST, RUNS_ON, host, place};
use crate::printer::Printer;
use crate::progress::{Progress, Step};
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

/// The flags of an installation, except those that only control this run.
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
    let deadline = Deadline::after(arguments.timeout);
    let step = progress.step("checking the host");
    let clusters = Clusters::connect(arguments, &plan, options, env).await?;
    let plan = direct::with_known_address(plan, clusters.runs_on()).await?;
    let mut install = Install { arguments, clusters: &clusters, plan, deadline, progress, printer };
    let (mut objects, judged) = install.judge(step).await?;
    install.check_flags(&judged)?;
    let mut report = report(printer);
    let is_written = !arguments.dry_run && !arguments.diff;
    if install.plan.lacks_address() && is_written {
        let mut step = install.progress.step("waiting for the load balancer");
        let applying = install.applying();
        let Install { plan, deadline, .. } = install;
        let runs_on = clusters.runs_on();
        let made = direct::with_new_address(plan, runs_on, applying, &deadline, &mut step, &mut report);
        let plan = made.await?;
        install = Install { plan, deadline, ..install };
        objects = install.plan.host()?;
        host::keep_foreign_namespaces(&clusters.host.client, &mut objects).await?;
        step.done();
    }
    let handover = CertificateRotation::find(&clusters.host, &install.plan).await?;
    let unexposed = Unexposed::find(&clusters.host, clusters.remote.as_ref(), &install.plan).await?;
    if !is_written {
        return install.preview(&judged, &handover, &unexposed).await;
    }
    install.apply(objects, &handover, &unexposed, &mut report).await?;
    printer.note(&next(&clusters.host));
    Ok(())
}

/// The clusters of an installation, after their checks.
struct Clusters {
    host: Connection,
    /// The cluster that runs the sidecars, if it is not the host.
    remote: Option<Connection>,
    /// The identity of the host in the objects of the remote cluster.
    host_uid: String,
}

impl Clusters {
    async fn connect(
        arguments: &InstallArgs,
        plan: &InstallPlan,
        options: &HostOptions,
        env: &Env,
    ) -> Result<Self, Failure> {
        let host = connection::connect(HOST, options, env).await?;
        let remote = match &plan.run_on {
            Some(context) => Some(remote::connect(context, options, env).await?),
            None => None,
        };
        let namespace = &plan.parameters.namespace;
        host::check(&host, namespace).await?;
        place::check(&host, plan).await?;
        let Some(remote) = remote else { return Ok(Self { host, remote: None, host_uid: String::new() }) };
        let hint = "run the sidecars of this host in another namespace: -n NAME";
        let host_uid = place::check_elsewhere(&host, &remote, namespace, hint).await?;
        remote::check_server(&host, arguments.host_server.as_deref()).await?;
        Ok(Self { host, remote: Some(remote), host_uid })
    }

    fn runs_on(&self) -> &Connection {
        self.remote.as_ref().unwrap_or(&self.host)
    }
}

/// An installation on checked clusters.
struct Install<'a> {
    arguments: &'a InstallArgs,
    clusters: &'a Clusters,
    plan: InstallPlan,
    deadline: Deadline,
    progress: Progress<'a>,
    printer: &'a Printer,
}

impl Install<'_> {
    fn applying(&self) -> Apply {
        Apply { dry_run: false, force_conflicts: self.arguments.force_conflicts }
    }

    /// The host's objects, and the result of a dry run of all objects.
    async fn judge(&self, step: Step<'_>) -> Result<(Vec<Value>, Vec<Applied>), Failure> {
        let Clusters { host, remote, host_uid } = self.clusters;
        let judging = Apply { dry_run: true, ..self.applying() };
        let mut objects = self.plan.host()?;
        let mut kept = host::keep_foreign_namespaces(&host.client, &mut objects).await?;
        let mut judged = judging.all(host, objects.clone()).await?;
        if let Some(remote) = remote {
            let (elsewhere, kept_elsewhere) = objects_elsewhere(&self.plan, "", host_uid, remote).await?;
            judged.extend(judging.all(remote, elsewhere).await?);
            let of_remote = |namespace| format!("{namespace} of the {RUNS_ON}");
            kept.extend(kept_elsewhere.into_iter().map(of_remote));
        }
        step.done();
        for namespace in kept {
            self.printer.note_line(&format!(
                "namespace {namespace} was not created by kubectl-mc and is left unchanged, including its pod security level"
            ));
        }
        Ok((objects, judged))
    }

    /// Refuses a command without flags of the earlier installation; a preview gets a warning.
    fn check_flags(&self, judged: &[Applied]) -> Result<(), Failure> {
        let Self { arguments, plan, .. } = self;
        let lacking = plan.flags.lacking(judged);
        if lacking.is_empty() || arguments.reset_flags {
            return Ok(());
        }
        let (kubectl_mc, namespace) = (self.clusters.host.cluster.kubectl_mc(), &plan.parameters.namespace);
        let command = format!("{kubectl_mc} install -n {namespace} {}", plan.flags.and(&lacking));
        let refused = format!(
            "nothing was applied: the sidecar was installed with flags that this command lacks: {lacking}"
        );
        if !arguments.dry_run && !arguments.diff {
            let hint =
                CommandLine::new(command).after("keep them").and("--reset-flags installs without them");
            return Err(Failure::usage(refused).with_hint(hint));
        }
        self.printer.note_line(&format!("warning: {refused}"));
        Ok(())
    }

    /// Prints what the installation would write and delete.
    async fn preview(
        &self,
        judged: &[Applied],
        handover: &CertificateRotation<'_>,
        unexposed: &Unexposed<'_>,
    ) -> Result<(), Failure> {
        let Self { arguments, printer, .. } = self;
        let delete = Delete { dry_run: true, timeout: arguments.timeout };
        let report = |one: &Object| match arguments.dry_run {
            true => delete.print("", one, printer),
            false => printer.note_line(&format!("{one} would be deleted")),
        };
        match arguments.dry_run {
            true => judged.iter().for_each(|one| printer.out_line(&one.line(true))),
            false => printer.out(&diff::unified(judged)),
        }
        handover.finish(delete, report).await?;
        Ok(unexposed.delete(delete, report).await?)
    }

    /// Applies the objects, waits for the sidecars, and registers the API groups once a sidecar
    /// serves them, because an APIService without a server affects every client.
    async fn apply(
        &self,
        mut objects: Vec<Value>,
        handover: &CertificateRotation<'_>,
        unexposed: &Unexposed<'_>,
        report: &mut impl FnMut(&Applied),
    ) -> Result<(), Failure> {
        let Self { arguments, plan, deadline, progress, printer, clusters } = self;
        let (host, runs_on, namespace) = (&clusters.host, clusters.runs_on(), &plan.parameters.namespace);
        let applying = self.applying();
        let mut registrations = split_off(&mut objects, "APIService");
        let program = split_off(&mut objects, "Deployment");
        let step = progress.step("applying");
        let mut applied = applying.each(host, objects, &mut *report).await?;
        if handover.is_due() {
            let mut step = progress.step("making the host trust the old and the new certificates");
            handover.trust_both(deadline, &mut step).await?;
            step.done();
            if plan.parameters.values.certificates == Certificates::SelfManaged {
                // Otherwise cert-manager would remove the sidecars' own authority again.
                let registrations = std::mem::take(&mut registrations);
                applied.extend(applying.each(host, registrations, &mut *report).await?);
            }
        }
        applying.each(host, program, &mut *report).await?;
        if let Some(remote) = &clusters.remote {
            let server = arguments.host_server.as_deref();
            let kubeconfig = remote::kubeconfig(&clusters.host, server, namespace, deadline).await?;
            let (elsewhere, _) = objects_elsewhere(plan, &kubeconfig, &clusters.host_uid, remote).await?;
            applying.each(remote, elsewhere, &mut *report).await?;
        }
        step.done();

        let mut step = progress.step("waiting for the sidecars");
        let uninstall = place::uninstall(&clusters.host, namespace, plan.run_on.as_deref());
        wait::deployment(runs_on, &uninstall, namespace, deadline, &mut step).await?;
        step.done();
        let delete = Delete { dry_run: false, timeout: arguments.timeout };
        handover.finish(delete, |one| delete.print("", one, printer)).await?;
        unexposed.delete(delete, |one| delete.print("", one, printer)).await?;
        applied.extend(applying.each(host, registrations, report).await?);
        protection::restore(host, &applied, printer).await?;
        let mut step = progress.step("waiting for the host to reach the sidecars");
        wait::registration(&clusters.host.client, plan.reach.as_ref(), deadline, &mut step).await?;
        step.done();
        Ok(())
    }
}

/// The objects from the first one of this kind on.
fn split_off(objects: &mut Vec<Value>, kind: &str) -> Vec<Value> {
    let first = objects.iter().position(|object| object["kind"] == kind);
    objects.split_off(first.unwrap_or(objects.len()))
}

/// The objects of the cluster that runs the sidecars for another host, without the foreign
/// namespaces, and the names of these namespaces.
async fn objects_elsewhere(
    plan: &InstallPlan,
    kubeconfig: &str,
    host_uid: &str,
    remote: &Connection,
) -> Result<(Vec<Value>, Vec<String>), Failure> {
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
