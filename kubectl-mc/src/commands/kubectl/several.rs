//! Runs a command of kubectl on several clusters, or on a context: resolves the choice, checks the command,
//! and runs the job.

use std::cell::OnceCell;
use std::time::SystemTime;

use crate::argv::Scanned;
use crate::cache::Cache;
use crate::cluster::cluster_id::{ClusterId, KubeconfigContext};
use crate::cluster::context::{self, ClusterContext, Contexts, HostError, HostOptions};
use crate::cluster::credential::Login;
use crate::cluster::inventory::{self, InventoryError, ListFormat};
use crate::cluster::reach::{HostReach, Reach};
use crate::commands::{builtin, misspelled};
use crate::config_file;
use crate::env::{self, Env};
use crate::error::{Failure, chain};
use crate::exit::ExitStatus;
use crate::kubectl::exec::{Invocation, Kubectl};
use crate::kubectl::kuberc;
use crate::kubectl::rewrite;
use crate::kubectl::verb::{self, Effect};
use crate::log::Log;
use crate::multi::selection::{self, Choice, Growth, Kind, List, ListOf, Picked, SelectedCluster};
use crate::multi::{self, Job};
use crate::printer::Printer;
use crate::settings::Settings;
use crate::trace;

pub(super) fn run(
    scanned: Scanned,
    settings: Settings,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    if verb::is_local(&scanned) && !settings.show_clusters {
        return local(scanned, &settings.host, env);
    }
    // Contexts need no host, and a command without a request needs no login.
    let found = LazyHost { scanned: &scanned, options: &settings.host, env, host: OnceCell::new() };
    let login = LazyLogin { host: &found, login: OnceCell::new() };
    let mut list = |from: &ListOf| match from {
        ListOf::Members(selector) => {
            let login = login.get()?;
            let host = login.host();
            let client = |source| InventoryError::Client { host: login.found().describe(), source };
            let (host, selector) = (host.map_err(client)?, selector.as_deref());
            let list = inventory::list(host, &scanned, env, selector, ListFormat::Objects)?;
            Ok(SelectedCluster::of_list(&list))
        }
        ListOf::Contexts => Ok(SelectedCluster::of_contexts(contexts(&settings.host, env, printer)?)),
    };
    let Some((choice, picked)) = choose(&scanned, &settings, &found, &mut list)? else {
        return Ok(ExitStatus::Interrupted);
    };
    let targets = choice.resolve(&settings.sets, &mut list);
    let targets = targets.map_err(|error| error.in_file(config_file::path(env)))?;
    let names = targets.names().map(ClusterId::as_str).collect::<Vec<_>>().join(",");
    Log::new(env).decision("Chose clusters", &[("clusters", &names)]);
    if let Some(trace) = trace::current() {
        trace.clusters(targets.len());
    }
    for target in targets.iter() {
        rewrite::check(&scanned, &target.name)?;
    }
    if scanned.verb().is_some_and(|verb| verb == builtin::COMPARE) && targets.len() < 2 {
        return Err(nothing_to_compare(targets.only().map(|only| &only.name)));
    }
    let has_members = targets.names().any(|cluster| cluster.member().is_some());
    if settings.show_clusters {
        let host = has_members.then(|| found.get()).transpose()?;
        let reach = Reach { host: host.map(HostReach::unused) };
        printer.out(&multi::show(&scanned, &reach, &targets, &settings.fleet));
        return Ok(ExitStatus::Success);
    }
    // kubectl knows the alias, but the plugin has to know what it does.
    let meant = kuberc::meant(&scanned, env).into_owned();
    // Passes the terminal to kubectl for a cluster that the user picked or named, and for a command that
    // needs a single one.
    let alone = picked || choice.is_exact_context(&targets) || verb::needs_one_cluster(&meant).is_some();
    if let Some(only) = targets.only().filter(|_| alone).map(|only| only.name.clone()) {
        if picked {
            confirm_picked(&scanned, &only, &found, &settings, printer)?;
        }
        match &only {
            ClusterId::Member(name) => return super::one(scanned, name.clone(), &settings, env, printer),
            ClusterId::Context(context) => {
                return super::one_context(scanned, &only, &context.cluster, &settings, env, printer);
            }
        }
    }
    multi::check(&meant, &targets)?;
    let growth = Growth::new(&choice, &settings.sets, &targets);
    if has_members && targets.iter().any(|target| target.listed.is_none() && target.member().is_some()) {
        super::look_up(targets.iter().filter_map(SelectedCluster::member), login.get()?, &scanned, env)?;
    }
    let host = match has_members {
        true => Some(super::through(login.get()?, &scanned, &settings, env, SystemTime::now())?.reach()?),
        false => None,
    };
    let Settings { fleet: options, .. } = &settings;
    let input = multi::read_input(&meant)?.map(|input| multi::unmarked(&meant, input)).transpose()?;
    let effect = builtin::effect(&meant);
    multi::run(&Job {
        // Where the plugin parses the output, kubectl runs without the kuberc that has the alias.
        scanned: if multi::parses_output(&meant) { &meant } else { &scanned },
        reach: &Reach { host },
        targets: &targets,
        growth: growth.as_ref(),
        options,
        env,
        printer,
        effect,
        input,
    })
}

/// The choice of the command line, of the last command, or of the user at a prompt, and whether it is the last of these;
/// `None` if the user cancels.
fn choose(
    scanned: &Scanned,
    settings: &Settings,
    found: &LazyHost<'_>,
    list: &mut List<'_>,
) -> Result<Option<(Choice, bool)>, Failure> {
    if let Some(choice) = &settings.choice {
        return Ok(Some((choice.clone(), false)));
    }
    if settings.retry_failed {
        let (cache, effect) = (Cache::open(found.env)?, builtin::effect(scanned));
        let choice = multi::recall(cache.folder(), &scanned.kubectl, effect, || Ok(found.get()?))?;
        return Ok(Some((choice, false)));
    }
    Ok(ask(scanned, list, settings.from, found.env)?.map(|choice| (choice, true)))
}

/// The contexts to choose from. Skipped files are named.
fn contexts(
    options: &HostOptions,
    env: &Env,
    printer: &Printer,
) -> Result<Vec<KubeconfigContext>, HostError> {
    let Contexts { all, skipped, .. } = context::contexts(options, env)?;
    skipped.iter().for_each(|skipped| printer.note_line(&format!("note: {skipped}")));
    Ok(all)
}

/// Names the cluster that the user has picked, and asks before a change there. An interactive command is not asked about:
/// its user sees where it runs, and ends it.
fn confirm_picked(
    scanned: &Scanned,
    cluster: &ClusterId,
    host: &LazyHost<'_>,
    settings: &Settings,
    printer: &Printer,
) -> Result<(), Failure> {
    let is_change = builtin::effect(scanned) == Effect::Writes && verb::needs_one_cluster(scanned).is_none();
    if !is_change || settings.fleet.yes {
        let word = if cluster.member().is_some() { "cluster" } else { "context" };
        printer.note_line(&format!("{word} {cluster}"));
        return Ok(());
    }
    let place = cluster.member().map(|_| host.get()).transpose()?.map(|host| host.describe());
    multi::confirm_one(scanned, cluster, place.as_deref())
}

/// The host, loaded on first use.
struct LazyHost<'a> {
    scanned: &'a Scanned,
    options: &'a HostOptions,
    env: &'a Env,
    host: OnceCell<ClusterContext>,
}

impl LazyHost<'_> {
    fn get(&self) -> Result<&ClusterContext, HostError> {
        if let Some(host) = self.host.get() {
            return Ok(host);
        }
        let host = ClusterContext::load_for(self.scanned, self.options, self.env)?;
        Ok(self.host.get_or_init(|| host))
    }
}

/// The login at the host, started on first use.
struct LazyLogin<'a> {
    host: &'a LazyHost<'a>,
    login: OnceCell<Login<'a>>,
}

impl<'a> LazyLogin<'a> {
    fn get(&self) -> Result<&Login<'a>, HostError> {
        let host = self.host.get()?;
        Ok(self.login.get_or_init(|| Login::new(host, self.host.scanned, self.host.env)))
    }
}

/// Runs a local command, such as help: it is the same for every cluster, sends no request and needs no host.
fn local(scanned: Scanned, host: &HostOptions, env: &Env) -> Result<ExitStatus, Failure> {
    let files = ClusterContext::load_for(&scanned, host, env).map(|host| host.files).unwrap_or_default();
    let kubeconfig = std::env::join_paths(files).unwrap_or_default();
    Ok(Kubectl::find(env)?.run(Invocation { arguments: scanned.kubectl, kubeconfig }, None)?)
}

/// Handles a command without a choice: prompts at a terminal, and otherwise fails with the list of clusters.
/// Returns `None` if the user cancels.
fn ask(scanned: &Scanned, list: &mut List<'_>, kind: Kind, env: &Env) -> Result<Option<Choice>, Failure> {
    // A prompt would only repeat the misspelled choice.
    if let Some(meant) = scanned.misspelled_choice() {
        return Err(no_cluster(kind, format!("did you mean {meant}?")));
    }
    misspelled::check_before_question(scanned, env)?;
    let (all, unlisted) = match kind {
        Kind::Members => match list(&ListOf::Members(None)) {
            Ok(all) => (all, None),
            Err(error) => (Vec::new(), Some(chain(&error))),
        },
        Kind::Contexts => (list(&ListOf::Contexts)?, None),
    };
    match selection::pick(&all, kind, env) {
        Picked::Choice(choice) => Ok(Some(choice)),
        Picked::Cancelled => Ok(None),
        Picked::Nothing => {
            let there_is = match unlisted {
                Some(reason) => format!("the clusters could not be listed: {reason}"),
                None => {
                    let known: Vec<_> = all.iter().map(|target| &target.name).collect();
                    selection::what_there_is(&known, kind)
                }
            };
            let hint = match kind {
                Kind::Members => format!(
                    "choose by --cluster=NAME, --cluster-selector, --where, {} or `kubectl mc use NAME`, see `kubectl mc --help`; {there_is}",
                    env::CLUSTER,
                ),
                Kind::Contexts => {
                    format!(
                        "choose by -C NAME, -C 'PATTERN-*', --context-selector or --all-clusters; {there_is}"
                    )
                }
            };
            Err(no_cluster(kind, hint))
        }
    }
}

fn nothing_to_compare(cluster: Option<&ClusterId>) -> Failure {
    let chosen = cluster.map_or("none", ClusterId::as_str);
    let (name, contexts) = cluster.map_or(("m1", ""), |cluster| (cluster.as_str(), cluster.contexts_flag()));
    Failure::usage(format!("compare needs at least two clusters, but only {chosen} is chosen"))
        .with_hint(format!("choose a second cluster: {contexts}--cluster={name},NAME"))
}

fn no_cluster(kind: Kind, hint: String) -> Failure {
    Failure::usage(format!("no {} chosen", kind.word())).with_hint(hint)
}
