//! Runs a command of kubectl on one cluster or on several.

mod direct;
mod several;

use std::time::SystemTime;

use kubectl_mc_api::ClusterName;

use self::direct::OneCluster;
use crate::argv::Scanned;
use crate::cache::Cache;
use crate::chosen_cluster::ChosenCluster;
use crate::cli::RouteChoice;
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::ClusterContext;
use crate::cluster::credential::{self, Login};
use crate::cluster::inventory::{self, ListFormat};
use crate::cluster::reach::Reach;
use crate::cluster::route::{self, Through};
use crate::commands::builtin;
use crate::env::Env;
use crate::error::{Failure, mc};
use crate::exit::ExitStatus;
use crate::kubectl::exec::Kubectl;
use crate::kubectl::overlay;
use crate::kubectl::preflight;
use crate::kubectl::rewrite::{self, RawPath};
use crate::kubectl::self_review::{self, Subresource};
use crate::kubectl::trace_proxy::TraceProxy;
use crate::kubectl::verb::Effect;
use crate::log::Log;
use crate::multi::direct::{NDJSON, Plan, TailPlan};
use crate::multi::selection::{Choice, Kind, SelectedCluster, SelectionError};
use crate::multi::{self, RunFolder};
use crate::printer::Printer;
use crate::settings::Settings;
use crate::trace;

/// Runs kubectl on the chosen clusters: for one cluster it replaces this process, else it runs once for each.
pub(super) fn run(
    scanned: Scanned,
    settings: Settings,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    if settings.fleet.keep && scanned.verb().is_none_or(|verb| verb != "port-forward") {
        return Err(Failure::usage("--keep is a flag of `port-forward` only")
            .with_hint("watches and followed logs of several clusters reconnect by themselves"));
    }
    if scanned.verb().is_some_and(|verb| verb == builtin::COMPARE) {
        if Plan::for_many(&scanned, env).is_none() {
            return Err(Failure::usage(
                "compare takes the arguments of `kubectl get`, without an output format",
            )
            .with_hint(mc("compare get deploy/web --cluster=m1,m2").after("for example")));
        }
        return several::run(scanned, settings, env, printer);
    }
    if scanned.verb().is_some_and(|verb| verb == builtin::TAIL) {
        // Invalid arguments are an error before any request.
        TailPlan::parse(&scanned)?;
    }
    if is_ndjson(&scanned) && Plan::for_many(&scanned, env).is_none() {
        return Err(Failure::usage(format!(
            "-o {NDJSON} works for `get` with types, names and selectors only, and without --watch"
        ))
        .with_hint("for other commands use -o json, which kubectl knows"));
    }
    let settings = Settings { choice: choice(&scanned, &settings, env, printer)?, ..settings };
    match settings.choice.as_ref().and_then(Choice::exact) {
        Some(cluster) if !settings.show_clusters => {
            let (cluster, given) = (cluster.clone(), scanned.clone());
            let ran = one(scanned, cluster.clone(), &settings, env, printer);
            ran.map_err(|failure| with_visible(failure, &cluster, &given, &settings, env))
        }
        _ => several::run(scanned, settings, env, printer),
    }
}

/// Whether `get` has the output format of the plugin, which kubectl does not have.
fn is_ndjson(scanned: &Scanned) -> bool {
    scanned.verb().is_some_and(|verb| verb == "get")
        && scanned.value("output").is_some_and(|output| output == NDJSON)
}

/// The chosen clusters, or else the cluster of `kubectl mc use`. A command that may change something then
/// prints that name.
fn choice(
    scanned: &Scanned,
    settings: &Settings,
    env: &Env,
    printer: &Printer,
) -> Result<Option<Choice>, Failure> {
    if settings.choice.is_some() || settings.retry_failed || settings.from == Kind::Contexts {
        return Ok(settings.choice.clone());
    }
    // A later step reports problems with the host.
    let Ok(host) = ClusterContext::load_for(scanned, &settings.host, env) else { return Ok(None) };
    let Some(cluster) = ChosenCluster::load(&host, env)?.cluster else { return Ok(None) };
    Log::new(env).decision("Use chosen cluster", &[("cluster", &cluster)]);
    if builtin::effect(scanned) != Effect::Reads {
        printer.note_line(&format!("cluster {cluster}, chosen by `kubectl mc use`"));
    }
    Ok(Some(Choice::names([cluster.into()])))
}

/// Names the clusters that the caller sees, for a name that the host does not know.
fn with_visible(
    mut failure: Failure,
    cluster: &ClusterName,
    scanned: &Scanned,
    settings: &Settings,
    env: &Env,
) -> Failure {
    if failure.status != ExitStatus::NoSuchCluster {
        return failure;
    }
    let Ok(host) = ClusterContext::load_for(scanned, &settings.host, env) else { return failure };
    let Ok(list) = inventory::list(&host, scanned, env, None, ListFormat::Objects) else { return failure };
    let known: Vec<_> =
        SelectedCluster::of_list(&list).iter().filter_map(|cluster| cluster.member().cloned()).collect();
    if !known.is_empty() {
        failure.hint = Failure::from(SelectionError::Unknown { name: cluster.clone(), known }).hint;
    }
    failure
}

/// Refuses a credential plugin by the user's policy, which a kubectl before 1.35 does not keep. A command
/// without a request runs no plugin.
fn check_policy(context: &ClusterContext, scanned: &Scanned, env: &Env) -> Result<(), Failure> {
    if preflight::needs_no_server(scanned) {
        return Ok(());
    }
    credential::check_policy(context, scanned, env)
}

/// The route to members for this command. A command without a request needs none.
fn through<'a>(
    login: &'a Login<'a>,
    scanned: &'a Scanned,
    settings: &Settings,
    env: &'a Env,
    now: SystemTime,
) -> Result<Through<'a>, Failure> {
    let wanted = if preflight::needs_no_server(scanned) { RouteChoice::Host } else { settings.route };
    route::Request { wanted, login, scanned, env, now }.choose()
}

/// Looks up the clusters of a hub whose list decides how they are reached. A name that the list does not
/// contain, or leads elsewhere, is an error.
fn look_up<'a>(
    clusters: impl IntoIterator<Item = &'a ClusterName>,
    login: &Login<'_>,
    scanned: &Scanned,
    env: &Env,
) -> Result<(), Failure> {
    if !login.found().hub.dialect.needs_list() || preflight::needs_no_server(scanned) {
        return Ok(());
    }
    let list = inventory::list(login.host()?, scanned, env, None, ListFormat::Objects)?;
    let known: Vec<_> =
        SelectedCluster::of_list(&list).iter().filter_map(|cluster| cluster.member().cloned()).collect();
    match clusters.into_iter().find(|name| !known.contains(name)) {
        Some(name) => match inventory::not_here(&list, name, login.found()) {
            Some(error) => Err(error.into()),
            None => Err(SelectionError::Unknown { name: name.clone(), known }.into()),
        },
        None => Ok(()),
    }
}

/// Runs kubectl on one cluster. On Unix a success does not return, because kubectl replaces this process.
fn one(
    scanned: Scanned,
    cluster: ClusterName,
    settings: &Settings,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let id = ClusterId::from(cluster.clone());
    if let Some(trace) = trace::current() {
        trace.clusters(1);
    }
    rewrite::check(&scanned, &id)?;
    let found = ClusterContext::load_for(&scanned, &settings.host, env)?;
    check_policy(&found, &scanned, env)?;
    let login = Login::new(&found, &scanned, env);
    look_up([&cluster], &login, &scanned, env)?;
    let now = SystemTime::now();
    let through = through(&login, &scanned, settings, env, now)?;
    if let Some((plan, take_over)) = Plan::for_one(&scanned, env) {
        let one = OneCluster { scanned: &scanned, cluster: &id, settings, env, printer };
        if let Some(status) = direct::run(&plan, take_over, &one, through.reach())? {
            return Ok(status);
        }
    }
    let host = through.found();
    let mut kubectl = Kubectl::find(env)?;
    Log::new(env).decision("Run kubectl", &[("cluster", &cluster), ("path", &kubectl.path().display())]);
    let cache = Cache::open(env)?;
    let mut overlay = overlay::overlay_json(&host, &id)?;
    let mut is_self_review = false;

    if preflight::is_needed(&scanned, &host, &cluster, env, cache.holds(&overlay), now) {
        preflight::run(&host, &cluster, &scanned, env)?;
    }
    if self_review::is_sent(&scanned)
        && !host.is_direct
        && !host.hub.is_foreign()
        && self_review::check(&found, &cluster, &scanned, env)? == Subresource::SelfReviews
    {
        is_self_review = true;
        overlay = overlay::self_review_overlay_json(&host, &cluster)?;
    }
    // The overlay is stored only now, so a cached overlay means that the cluster was not refused.
    let overlay = cache.store(&overlay, now)?;

    let mut raw = RawPath::Joined;
    if rewrite::uses_raw(&scanned).is_some() {
        let minor = kubectl.minor_version(&rewrite::kubeconfig_list(&host, &overlay)?)?;
        raw = RawPath::of_minor_version(minor);
    }
    if settings.fleet.keep {
        let invocation = rewrite::rewrite(scanned, &host, &id, &overlay, raw)?;
        return multi::keep_one(&kubectl, &invocation, printer);
    }
    let input = multi::unmarked_file(&scanned, cache.folder())?;
    if let Some(proxy) = TraceProxy::start(&host, &scanned, env)? {
        let folder = RunFolder::new(cache.folder());
        let overlay = match is_self_review {
            true => overlay::self_review_overlay_json(proxy.context(), &cluster)?,
            false => overlay::overlay_json(proxy.context(), &id)?,
        };
        let overlay = folder.write("kubeconfig", &overlay)?;
        let invocation = rewrite::rewrite(scanned, proxy.context(), &id, &overlay, raw)?;
        kubectl.cache_in(folder.path()?);
        return Ok(kubectl.run_child(invocation, input)?);
    }
    let invocation = rewrite::rewrite(scanned, &host, &id, &overlay, raw)?;
    trace::end(None, printer);
    Ok(kubectl.run(invocation, input)?)
}

/// Runs kubectl on a context, which it reaches without the plugin.
fn one_context(
    scanned: Scanned,
    cluster: &ClusterId,
    context: &ClusterContext,
    settings: &Settings,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    context.check_usable()?;
    rewrite::check(&scanned, cluster)?;
    check_policy(context, &scanned, env)?;
    if let Some((plan, take_over)) = Plan::for_one(&scanned, env) {
        let one = OneCluster { scanned: &scanned, cluster, settings, env, printer };
        if let Some(status) = direct::run_through(&plan, take_over, &one, &Reach::default())? {
            return Ok(status);
        }
    }
    let kubectl = Kubectl::find(env)?;
    Log::new(env).decision("Run kubectl", &[("context", cluster), ("path", &kubectl.path().display())]);
    let cache = Cache::open(env)?;
    let overlay = cache.store(&overlay::overlay_json(context, cluster)?, SystemTime::now())?;
    // For a context, kubectl handles the path of --raw itself.
    let invocation = |scanned| rewrite::rewrite(scanned, context, cluster, &overlay, RawPath::Joined);
    if settings.fleet.keep {
        return multi::keep_one(&kubectl, &invocation(scanned)?, printer);
    }
    let input = multi::unmarked_file(&scanned, cache.folder())?;
    let invocation = invocation(scanned)?;
    trace::end(None, printer);
    Ok(kubectl.run(invocation, input)?)
}
