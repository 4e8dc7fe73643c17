//! Runs a command of kubectl on several clusters: resolves the choice, checks the command, and runs the job.

use std::time::SystemTime;

use kubectl_mc_api::ClusterName;

use crate::argv::Scanned;
use crate::cache::Cache;
use crate::cluster::context::{ClusterContext, HostOptions};
use crate::cluster::credential::Login;
use crate::cluster::inventory::{self, InventoryError, ListFormat};
use crate::commands::builtin;
use crate::config_file;
use crate::env::{self, Env};
use crate::error::{Explain, Failure};
use crate::exit::ExitStatus;
use crate::kubectl::exec::{Invocation, Kubectl};
use crate::kubectl::rewrite;
use crate::kubectl::verb;
use crate::log::Log;
use crate::multi::selection::{self, Choice, Growth, List, Picked, SelectedCluster};
use crate::multi::{self, Job};
use crate::printer::Printer;
use crate::settings::Settings;

pub(super) fn run(
    scanned: Scanned,
    settings: Settings,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    if verb::is_local(&scanned) && !settings.show_clusters {
        return local(scanned, &settings.host, env);
    }
    let host = ClusterContext::load_for(&scanned, &settings.host, env)?;
    // A command without a request needs no login, and others need one.
    let login = Login::new(&host, &scanned);
    let mut list = |selector: Option<&str>| {
        let host = login.host().map_err(|source| InventoryError::Client { host: host.describe(), source })?;
        let list = inventory::list(host, &scanned, env, selector, ListFormat::Objects)?;
        Ok(SelectedCluster::of_list(&list))
    };
    let (choice, picked) = match &settings.choice {
        Some(choice) => (choice.clone(), false),
        None if settings.retry_failed => {
            let names = multi::recall(Cache::open(env)?.folder(), &host)?;
            (Choice::names(names), false)
        }
        None => match ask(&mut list, env)? {
            Some(choice) => (choice, true),
            None => return Ok(ExitStatus::Interrupted),
        },
    };
    let targets = choice.resolve(&settings.sets, &mut list);
    let targets = targets.map_err(|error| error.in_file(config_file::path(env)))?;
    let names = targets.names().map(ClusterName::as_str).collect::<Vec<_>>().join(",");
    Log::new(env).decision("Chose clusters", &[("clusters", &names)]);
    for target in targets.iter() {
        rewrite::check(&scanned, &target.name)?;
    }
    if scanned.verb().is_some_and(|verb| verb == builtin::COMPARE) && targets.len() < 2 {
        return Err(NothingToCompare { cluster: targets.only().map(|only| only.name.clone()) }.into());
    }
    if settings.show_clusters {
        printer.out(&multi::show(&scanned, &host, &targets));
        return Ok(ExitStatus::Success);
    }
    // One cluster that a person has picked, or that is needed for itself, has kubectl's whole attention.
    let alone = picked || verb::needs_one_cluster(&scanned).is_some();
    if let Some(only) = targets.only().filter(|_| alone) {
        let cluster = only.name.clone();
        return super::one(scanned, cluster, &settings, env, printer);
    }
    multi::check(&scanned, targets.len())?;
    let growth = Growth::new(&choice, &settings.sets);
    let through = super::through(&login, &scanned, &settings, env, SystemTime::now())?;
    let (found, through) = (through.found(), through.host()?);
    let Settings { fleet: options, .. } = &settings;
    let input = multi::read_input(&scanned)?.map(|input| multi::unmarked(&scanned, input)).transpose()?;
    let effect = builtin::effect(&scanned);
    multi::run(&Job {
        scanned: &scanned,
        host: &host,
        through: &through,
        found: &found,
        targets: &targets,
        growth: growth.as_ref(),
        options,
        env,
        printer,
        effect,
        input,
    })
}

/// Help and the like: the same for every cluster, asked of none, and printed without a host too.
fn local(scanned: Scanned, host: &HostOptions, env: &Env) -> Result<ExitStatus, Failure> {
    let files = ClusterContext::load_for(&scanned, host, env).map(|host| host.files).unwrap_or_default();
    let kubeconfig = std::env::join_paths(files).unwrap_or_default();
    Ok(Kubectl::find(env)?.run(Invocation { arguments: scanned.kubectl, kubeconfig }, None)?)
}

/// Nothing was chosen: asks at a terminal, and elsewhere fails with the clusters there are; `None` if the user cancels.
fn ask(list: &mut List<'_>, env: &Env) -> Result<Option<Choice>, Failure> {
    let all = list(None).unwrap_or_default();
    match selection::pick(&all, env) {
        Picked::Choice(choice) => Ok(Some(choice)),
        Picked::Cancelled => Ok(None),
        Picked::Nothing => {
            Err(NoCluster { known: all.into_iter().map(|target| target.name).collect() }.into())
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("compare needs at least two clusters, but only {} is chosen", cluster.as_ref().map_or("none", |cluster| cluster.as_str()))]
struct NothingToCompare {
    cluster: Option<ClusterName>,
}

impl Explain for NothingToCompare {
    fn hint(&self) -> Option<String> {
        let cluster = self.cluster.as_ref().map_or("m1", ClusterName::as_str);
        Some(format!("choose a second cluster: --cluster={cluster},NAME"))
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}

#[derive(Debug, thiserror::Error)]
#[error("no cluster chosen")]
struct NoCluster {
    known: Vec<ClusterName>,
}

impl Explain for NoCluster {
    fn hint(&self) -> Option<String> {
        Some(format!(
            "choose by --cluster=NAME, --cluster-selector, --where, {} or `kubectl mc use NAME`; {}, see `kubectl mc --help`",
            env::CLUSTER,
            selection::what_there_is(&self.known)
        ))
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}
