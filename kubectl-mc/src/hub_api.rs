//! Implements `kubectl mc hub-api`: redirects the API group of another hub to the sidecar, which forwards to
//! the hub's own server, and restores it.
//!
//! The group's APIService determines the server, and an annotation records the original one.

use std::time::Duration;

use http::{Method, StatusCode};
use kubectl_mc_api::names::{API_SERVICE, REPLACED};
use kubectl_mc_api::{Hop, Origin, manifests};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::apply::{Applied, Apply};
use crate::cli::{Flags, Hub, HubApiApplyArgs, HubApiArgs, HubApiCommand, HubApiRemoveArgs};
use crate::cluster::connection::{self, Connection, ConnectionError};
use crate::env::Env;
use crate::error::{CommandLine, Failure, Hint, mc};
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::progress::{Interrupt, Progress};
use crate::settings::Settings;

mod put_back;
mod target;

use put_back::PutBack;
pub(crate) use put_back::put_all_back;
use target::{Record, Target};

pub(crate) fn run(
    arguments: &HubApiArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let options = Settings::host_of(flags, env)?;
    connection::run(async {
        let host = connection::connect("host", &options, env).await?;
        match &arguments.command {
            HubApiCommand::Apply(arguments) => apply(arguments, &host, printer).await,
            HubApiCommand::Remove(arguments) => remove(arguments, &host, printer).await,
        }
    })
}

async fn apply(
    arguments: &HubApiApplyArgs,
    host: &Connection,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let group = Group::of(arguments.group_of);
    let wanted = match &arguments.service {
        Some(service) => Target::given(service, arguments.certificate_authority.as_deref())?,
        None => {
            let own = host.get(&api_service(API_SERVICE)).await?.ok_or_else(not_installed)?;
            Target::of(&own).ok_or_else(not_installed)?
        }
    };
    let current = host.get(&group.path()).await?.ok_or_else(|| group.missing())?;
    let now = Target::of(&current).ok_or_else(|| {
        let name = group.api_service;
        Failure::new(format!(
            "APIService {name} names no Service: the host's kube-apiserver serves the group itself"
        ))
    })?;
    if now.service == wanted.service {
        let answer = group.answers_by(host, Some(Hop::KarmadaServer), arguments.timeout).await;
        answer.map_err(|last| {
            let name = group.api_service;
            Failure::new(format!("{name} leads to the sidecar already, which does not serve it: {last}"))
                .with_hint(mc("hub-api remove --for karmada").after("put it back"))
        })?;
        printer.out_line(&format!("{} leads to the sidecar already", group.api_service));
        return Ok(ExitStatus::Success);
    }
    let annotation = &current["metadata"]["annotations"][REPLACED];
    let original = original(&now, annotation.as_str(), group)?;
    let record = Record { original, sidecar: Some(wanted.service.clone()) };
    let rights = manifests::hub_api_rights(&arguments.namespace).map_err(unreadable_rights)?;
    let mut patch = patch_to(&wanted, &record.to_text().into());
    patch["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
    let applying = Apply { dry_run: arguments.dry_run, force_conflicts: false };
    let applied = applying.print_each("", host, rights, printer).await?;
    if arguments.dry_run {
        host.merge(&group.dry_run(), &patch).await?;
        printer
            .out_line(&format!("{} leads to {wanted} instead of {now} (server dry run)", group.api_service));
        return Ok(ExitStatus::Success);
    }
    let (step, interrupt) = (Progress::new(printer), Interrupt::handle());
    let served = interrupt.unless(async {
        host.merge(&group.path(), &patch).await?;
        let waiting = step.step("waiting for the sidecar to serve the group");
        let answer = group.answers_by(host, Some(Hop::KarmadaServer), arguments.timeout).await;
        answer.map_err(|last| {
            let (name, within) = (group.api_service, arguments.timeout);
            Failure::new(format!(
                "the sidecar did not serve the group of {name} within {within:?}, so the APIService is as it was: {last}"
            ))
            .with_hint(
                "the sidecar needs --inventory=membercluster,karmada and --karmada-server, see its log and \
                 docs/how-to/karmada-in-place.md",
            )
        })?;
        waiting.done();
        Ok::<(), Failure>(())
    });
    let interrupted = || {
        Failure::new(format!("interrupted: {} leads where it did before", group.api_service))
            .with_status(ExitStatus::Interrupted)
    };
    if let Err(failure) = served.await.unwrap_or_else(|| Err(interrupted())) {
        let restored = interrupt.unless(async {
            if !annotation.is_null() {
                return undo(&now, &wanted, annotation, &applied, group, host).await;
            }
            match put_back::put_back(group, host, false, printer).await? {
                PutBack::LeadsElsewhere(now) => Err(group.elsewhere(&now)),
                PutBack::NotReplaced | PutBack::Restored(_) => Ok(()),
            }
        });
        // A second signal ends a host that does not respond.
        restored.await.unwrap_or(Ok(()))?;
        return Err(failure);
    }
    printer.out_line(&format!("{} leads to {wanted} instead of {now}", group.api_service));
    Ok(ExitStatus::Success)
}

/// The hub's own server, which `remove` restores. If the group points to another sidecar, the
/// annotation contains the server. If the hub has written its APIService in the meantime, the
/// annotation has an old CA.
fn original(now: &Target, annotation: Option<&str>, group: Group) -> Result<Target, Failure> {
    let Some(text) = annotation else { return Ok(now.clone()) };
    let recorded = Record::read(text).ok_or_else(|| group.unknown_annotation())?.original;
    Ok(if recorded.service == now.service { now.clone() } else { recorded })
}

/// Restores an APIService that pointed to another sidecar, and that sidecar's right to it, unless
/// it now points to a third server.
async fn undo(
    before: &Target,
    wanted: &Target,
    annotation: &Value,
    applied: &[Applied],
    group: Group,
    host: &Connection,
) -> Result<(), Failure> {
    let is_ours = |current: &Value| Target::of(current).is_some_and(|now| now.service == wanted.service);
    let patch = |current: &Value| Ok(is_ours(current).then(|| patch_to(before, annotation)));
    if !group.update(host, false, patch).await? {
        return Ok(());
    }
    for one in applied.iter().filter(|one| one.object.kind() == "ClusterRoleBinding") {
        if let Some(before) = &one.before {
            let path =
                format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{}", one.object.name());
            host.merge(&path, &json!({"subjects": before["subjects"]})).await?;
        }
    }
    Ok(())
}

async fn remove(
    arguments: &HubApiRemoveArgs,
    host: &Connection,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let (group, dry_run) = (Group::of(arguments.group_of), arguments.dry_run);
    let original = match put_back::put_back(group, host, dry_run, printer).await? {
        PutBack::NotReplaced => {
            printer.note_line(&format!(
                "nothing to put back: {} was not changed by hub-api apply",
                group.api_service
            ));
            return Ok(ExitStatus::Success);
        }
        PutBack::LeadsElsewhere(now) => return Err(group.elsewhere(&now)),
        PutBack::Restored(original) => original,
    };
    if dry_run {
        printer.out_line(&format!("{} leads to {original} again (server dry run)", group.api_service));
        return Ok(ExitStatus::Success);
    }
    if let Err(last) = group.answers_by(host, None, arguments.timeout).await {
        let name = group.api_service;
        return Err(Failure::new(format!(
            "{name} leads to {original} again, but it does not answer: {last}"
        ))
        .with_hint(group.see("describe", "")));
    }
    printer.out_line(&format!("{} leads to {original} again", group.api_service));
    Ok(ExitStatus::Success)
}

/// The patch that makes the APIService point to this target, with this annotation.
fn patch_to(target: &Target, annotation: &Value) -> Value {
    let mut patch = target.patch();
    patch["metadata"] = json!({"annotations": {REPLACED: annotation}});
    patch
}

/// The API group of a hub.
#[derive(Clone, Copy, Debug)]
struct Group {
    api_service: &'static str,
    collection: &'static str,
}

impl Group {
    fn of(hub: Hub) -> Self {
        let Hub::Karmada = hub;
        Self { api_service: KARMADA, collection: Origin::Karmada.collection() }
    }

    fn path(self) -> String {
        api_service(self.api_service)
    }

    fn dry_run(self) -> String {
        format!("{}?dryRun=All", self.path())
    }

    /// Patches the APIService in the version that was read, and reads it again if it has changed in
    /// the meantime. Returns whether it was patched.
    async fn update(
        self,
        host: &Connection,
        dry_run: bool,
        mut patch: impl FnMut(&Value) -> Result<Option<Value>, Failure>,
    ) -> Result<bool, Failure> {
        let path = if dry_run { self.dry_run() } else { self.path() };
        for attempt in 1.. {
            let current = host.get(&self.path()).await?.ok_or_else(|| self.missing())?;
            let Some(mut patch) = patch(&current)? else { break };
            patch["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
            match host.merge(&path, &patch).await {
                Err(ConnectionError::Refused { status: StatusCode::CONFLICT, .. }) if attempt < ATTEMPTS => {}
                patched => return patched.map(|_| true).map_err(Failure::from),
            }
        }
        Ok(false)
    }

    /// Waits until the group responds through this hop; the error is its last response.
    async fn answers_by(self, host: &Connection, hop: Option<Hop>, timeout: Duration) -> Result<(), String> {
        let (deadline, path) = (Instant::now() + timeout, format!("{}?limit=1", self.collection));
        loop {
            let last = match host.send(Method::GET, &path, None).await {
                Ok(answer) if answer.status.is_success() && answer.hop == hop => return Ok(()),
                Ok(answer) => format!("{}: {}", answer.status, answer.message()),
                Err(error) => error.to_string(),
            };
            if Instant::now() >= deadline {
                return Err(last);
            }
            sleep(INTERVAL).await;
        }
    }
}

fn api_service(name: &str) -> String {
    format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}")
}

const KARMADA: &str = "v1alpha1.cluster.karmada.io";
const INTERVAL: Duration = Duration::from_millis(500);
/// The host writes the status of an APIService at any time.
const ATTEMPTS: u32 = 10;

impl Group {
    fn kubectl_name(self) -> String {
        format!("apiservice {}", self.api_service)
    }
}

impl Group {
    fn missing(self) -> Failure {
        Failure::new(format!("the host has no APIService {}", self.api_service))
            .with_hint("name the kubeconfig context of Karmada's API server by --context")
    }

    fn unknown_annotation(self) -> Failure {
        let name = self.api_service;
        Failure::new(format!("annotation {REPLACED} of APIService {name} is not what hub-api apply wrote"))
            .with_hint(self.see("get", " -o yaml"))
    }

    fn elsewhere(self, now: &str) -> Failure {
        let annotate = CommandLine::new(format!("kubectl annotate {} {REPLACED}-", self.kubectl_name()));
        Failure::new(format!(
            "nothing was changed: APIService {} leads to {now} now, which hub-api apply did not write",
            self.api_service
        ))
        .with_hint(annotate.after("if that is the server of the hub, remove the record"))
    }

    fn see(self, verb: &str, flags: &str) -> Hint {
        CommandLine::new(format!("kubectl {verb} {}{flags}", self.kubectl_name())).after("see")
    }
}

fn not_installed() -> Failure {
    Failure::new(format!(
        "the sidecar is not installed on the host: APIService {API_SERVICE} does not exist or names no Service"
    ))
    .with_hint(mc("install").after("install it"))
}

fn unreadable_rights(error: manifests::Error) -> Failure {
    Failure::new(format!("cannot read the rights of the sidecar: {error}"))
}

#[cfg(test)]
mod tests;
