//! Runs a command of kubectl on several clusters, or on a context: resolves the choice, checks the command,
//! and runs the job.

use std::time::SystemTime;

use super::Run;
use crate::argv::Scanned;
use crate::cache::Cache;
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context;
use crate::cluster::inventory::{self, ListFormat};
use crate::cluster::reach::{HostReach, Reach};
use crate::commands::{builtin, misspelled};
use crate::config_file;
use crate::env::{self, Env};
use crate::error::{Failure, Hint, chain, mc};
use crate::exit::ExitStatus;
use crate::kubectl::exec::{Invocation, Kubectl};
use crate::kubectl::kuberc;
use crate::kubectl::rewrite;
use crate::kubectl::verb::{self, Effect};
use crate::log::Log;
use crate::multi::selection::{self, Choice, Growth, Kind, List, ListOf, Picked, SelectedCluster};
use crate::multi::{self, Job};

pub(super) fn run(command: &Run<'_>, choice: Option<Choice>) -> Result<ExitStatus, Failure> {
    let Run { scanned, settings, host: found, env, printer } = *command;
    if verb::is_local(scanned) && !settings.show_clusters {
        return local(command);
    }
    let mut list = |from: &ListOf| match from {
        ListOf::Members(selector) => {
            let list = inventory::list(found.get()?, selector.as_deref(), ListFormat::Objects)?;
            Ok(SelectedCluster::of_list(&list))
        }
        ListOf::Contexts => {
            let contexts = context::contexts(&settings.host, env)?;
            contexts.notes().for_each(|note| printer.note_line(&note));
            Ok(SelectedCluster::of_contexts(contexts.all))
        }
    };
    let Some((choice, picked)) = choose(command, choice, &mut list)? else {
        return Ok(ExitStatus::Interrupted);
    };
    let targets = choice.resolve(&settings.sets, &mut list);
    let targets = targets.map_err(|error| error.in_file(config_file::path(env)))?;
    let names = targets.names().map(ClusterId::as_str).collect::<Vec<_>>().join(",");
    Log::new(env).decision("Chose clusters", &[("clusters", &names)]);
    for target in targets.iter() {
        rewrite::check(scanned, &target.name)?;
    }
    if scanned.verb().is_some_and(|verb| verb == builtin::COMPARE) && targets.len() < 2 {
        return Err(nothing_to_compare(targets.only().map(|only| &only.name)));
    }
    let has_members = targets.names().any(|cluster| cluster.member().is_some());
    if settings.show_clusters {
        let host = has_members.then(|| found.context()).transpose()?;
        let reach = Reach { host: host.map(HostReach::unused) };
        printer.out(&multi::show(scanned, &reach, &targets, &settings.fleet));
        return Ok(ExitStatus::Success);
    }
    // kubectl knows the alias, but the plugin has to know what it does.
    let meant = kuberc::meant(scanned, env).into_owned();
    // Passes the terminal to kubectl for a cluster that the user picked or named, and for a command that
    // needs a single one.
    let alone = picked || choice.is_exact_context(&targets) || verb::needs_one_cluster(&meant).is_some();
    if let Some(only) = targets.only().filter(|_| alone).map(|only| only.name.clone()) {
        if picked {
            confirm_picked(command, &only)?;
        }
        return command.one(&only);
    }
    multi::check(&meant, &targets)?;
    let growth = Growth::new(&choice, &settings.sets, &targets);
    if has_members && targets.iter().any(|target| target.listed.is_none() && target.member().is_some()) {
        command.look_up(targets.iter().filter_map(SelectedCluster::member))?;
    }
    let host = match has_members {
        true => Some(command.through(SystemTime::now())?.reach()?),
        false => None,
    };
    let input = multi::read_input(&meant)?.map(|input| multi::unmarked(&meant, input)).transpose()?;
    let effect = builtin::effect(&meant);
    multi::run(&Job {
        // If the plugin parses the output, kubectl runs without the kuberc that contains the alias.
        scanned: if multi::parses_output(&meant) { &meant } else { scanned },
        reach: &Reach { host },
        targets: &targets,
        growth: growth.as_ref(),
        options: &settings.fleet,
        env,
        printer,
        effect,
        input,
    })
}

/// The selection from the command line, from the last command, or from the user at a prompt, and
/// whether it came from the prompt; `None` if the user cancels.
fn choose(
    command: &Run<'_>,
    choice: Option<Choice>,
    list: &mut List<'_>,
) -> Result<Option<(Choice, bool)>, Failure> {
    let Run { scanned, settings, host, env, .. } = *command;
    if let Some(choice) = choice {
        return Ok(Some((choice, false)));
    }
    if settings.retry_failed {
        let (cache, effect) = (Cache::open(env)?, builtin::effect(scanned));
        let choice = multi::recall(cache.folder(), &scanned.kubectl, effect, || Ok(host.context()?))?;
        return Ok(Some((choice, false)));
    }
    Ok(ask(scanned, list, settings.from, env)?.map(|choice| (choice, true)))
}

/// Prints the cluster that the user has picked, and asks for confirmation before a change there. An
/// interactive command needs no confirmation: its user sees where it runs and can end it.
fn confirm_picked(command: &Run<'_>, cluster: &ClusterId) -> Result<(), Failure> {
    let Run { scanned, settings, host, printer, .. } = *command;
    let is_change = builtin::effect(scanned) == Effect::Writes && verb::needs_one_cluster(scanned).is_none();
    if !is_change || settings.fleet.yes {
        let word = if cluster.member().is_some() { "cluster" } else { "context" };
        printer.note_line(&format!("{word} {cluster}"));
        return Ok(());
    }
    let place = cluster.member().map(|_| host.get()).transpose()?.map(|host| host.context().describe());
    multi::confirm_one(scanned, cluster, place.as_deref())
}

/// Runs a local command, such as help: it is the same for every cluster, sends no request and needs no host.
fn local(command: &Run<'_>) -> Result<ExitStatus, Failure> {
    let files = command.host.context().map(|host| host.files.as_slice()).unwrap_or_default();
    let kubeconfig = std::env::join_paths(files).unwrap_or_default();
    let arguments = command.scanned.kubectl.clone();
    Ok(Kubectl::find(command.env)?.run(Invocation { arguments, kubeconfig }, None)?)
}

/// Handles a command without a choice: prompts at a terminal, and otherwise fails with the list of clusters.
/// Returns `None` if the user cancels.
fn ask(scanned: &Scanned, list: &mut List<'_>, kind: Kind, env: &Env) -> Result<Option<Choice>, Failure> {
    // A prompt would only repeat the misspelled choice.
    if let Some(meant) = scanned.misspelled_choice() {
        return Err(no_cluster(kind, format!("did you mean {meant}?").into()));
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
                Some(reason) => format!("the clusters could not be listed: {reason}").into(),
                None => {
                    let known: Vec<_> = all.iter().map(|target| &target.name).collect();
                    selection::what_there_is(&known, kind)
                }
            };
            let hint = match kind {
                Kind::Members => {
                    let flags = "--cluster=NAME, --cluster-selector, --where";
                    Hint::from(format!("choose by {flags}, {} or `", env::CLUSTER))
                        .then(mc("use NAME"))
                        .then("`, see `kubectl mc --help`")
                }
                Kind::Contexts => {
                    "choose by -C NAME, -C 'PATTERN-*', --context-selector or --all-clusters".into()
                }
            };
            Err(no_cluster(kind, hint.and(there_is)))
        }
    }
}

fn nothing_to_compare(cluster: Option<&ClusterId>) -> Failure {
    let chosen = cluster.map_or("none", ClusterId::as_str);
    let (name, contexts) = cluster.map_or(("m1", ""), |cluster| (cluster.as_str(), cluster.contexts_flag()));
    Failure::usage(format!("compare needs at least two clusters, but only {chosen} is chosen"))
        .with_hint(format!("choose a second cluster: {contexts}--cluster={name},NAME"))
}

fn no_cluster(kind: Kind, hint: Hint) -> Failure {
    Failure::usage(format!("no {} chosen", kind.word())).with_hint(hint)
}
