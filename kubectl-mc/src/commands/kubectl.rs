//! Runs a command of kubectl on one cluster or on several.

mod direct;
mod several;

use std::time::SystemTime;

use kubectl_mc_api::ClusterName;
use serde_json::Value;

use crate::argv::Scanned;
use crate::cache::Cache;
use crate::chosen_cluster::ChosenCluster;
use crate::cli::RouteChoice;
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::ClusterContext;
use crate::cluster::credential;
use crate::cluster::host::LazyHost;
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
use crate::kubectl::verb::Effect;
use crate::log::Log;
use crate::multi;
use crate::multi::direct::{NDJSON, Plan, TailPlan};
use crate::multi::selection::{Choice, Kind, SelectedCluster, SelectionError};
use crate::printer::Printer;
use crate::settings::Settings;

/// A kubectl command, and the inputs of its steps.
struct Run<'a> {
    scanned: &'a Scanned,
    settings: &'a Settings,
    host: &'a LazyHost<'a>,
    env: &'a Env,
    printer: &'a Printer,
}

/// Runs kubectl on the chosen clusters: for one cluster it replaces this process, otherwise it runs
/// once for each.
pub(super) fn run(
    scanned: &Scanned,
    settings: &Settings,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    check(scanned, settings, env)?;
    let host = &LazyHost::new(&settings.host, scanned, env, !preflight::needs_no_server(scanned));
    let command = Run { scanned, settings, host, env, printer };
    let choice = command.choice()?;
    let is_compare = scanned.verb().is_some_and(|verb| verb == builtin::COMPARE);
    match choice.as_ref().and_then(Choice::exact) {
        Some(cluster) if !settings.show_clusters && !is_compare => {
            let ran = command.one(&cluster.clone().into());
            ran.map_err(|failure| command.with_visible(failure, cluster))
        }
        _ => several::run(&command, choice),
    }
}

/// Refuses arguments that are invalid on any cluster.
fn check(scanned: &Scanned, settings: &Settings, env: &Env) -> Result<(), Failure> {
    if settings.fleet.keep && scanned.verb().is_none_or(|verb| verb != "port-forward") {
        return Err(Failure::usage("--keep is a flag of `port-forward` only")
            .with_hint("watches and followed logs of several clusters reconnect by themselves"));
    }
    let is_direct = || Plan::for_many(scanned, env).is_some();
    if scanned.verb().is_some_and(|verb| verb == builtin::COMPARE) && !is_direct() {
        return Err(Failure::usage("compare takes the arguments of `kubectl get`, without an output format")
            .with_hint(mc("compare get deploy/web --cluster=m1,m2").after("for example")));
    }
    if scanned.verb().is_some_and(|verb| verb == builtin::TAIL) {
        TailPlan::parse(scanned)?;
    }
    if is_ndjson(scanned) && !is_direct() {
        return Err(Failure::usage(format!(
            "-o {NDJSON} works for `get` with types, names and selectors only, and without --watch"
        ))
        .with_hint("for other commands use -o json, which kubectl knows"));
    }
    Ok(())
}

/// Whether `get` has the output format of the plugin, which kubectl does not have.
fn is_ndjson(scanned: &Scanned) -> bool {
    scanned.verb().is_some_and(|verb| verb == "get")
        && scanned.value("output").is_some_and(|output| output == NDJSON)
}

impl Run<'_> {
    /// The chosen clusters, or else the cluster of `kubectl mc use`. A command that may change something then
    /// prints that name.
    fn choice(&self) -> Result<Option<Choice>, Failure> {
        let Self { scanned, settings, host, env, printer, .. } = self;
        let is_compare = scanned.verb().is_some_and(|verb| verb == builtin::COMPARE);
        if settings.choice.is_some() || settings.retry_failed || settings.from == Kind::Contexts || is_compare
        {
            return Ok(settings.choice.clone());
        }
        // A later step reports problems with the host.
        let Ok(host) = host.context() else { return Ok(None) };
        let Some(cluster) = ChosenCluster::load(host, env)?.cluster else { return Ok(None) };
        Log::new(env).decision("Use chosen cluster", &[("cluster", &cluster)]);
        if builtin::effect(scanned) != Effect::Reads {
            printer.note_line(&format!("cluster {cluster}, chosen by `kubectl mc use`"));
        }
        Ok(Some(Choice::names([cluster.into()])))
    }

    /// Names the clusters that the caller sees, for a name that the host does not know.
    fn with_visible(&self, mut failure: Failure, cluster: &ClusterName) -> Failure {
        if failure.status != ExitStatus::NoSuchCluster {
            return failure;
        }
        let Ok(host) = self.host.get() else { return failure };
        let list = inventory::list(host, None, ListFormat::Objects);
        let known = list.map(|list| members(&list)).unwrap_or_default();
        if !known.is_empty() {
            failure.hint = Failure::from(SelectionError::Unknown { name: cluster.clone(), known }).hint;
        }
        failure
    }

    /// The route to members for this command. A command without a request needs none.
    fn through(&self, now: SystemTime) -> Result<Through<'_>, Failure> {
        let Self { scanned, settings, host, .. } = *self;
        let wanted = if preflight::needs_no_server(scanned) { RouteChoice::Host } else { settings.route };
        route::Request { wanted, host: host.get()?, now }.choose()
    }

    /// Looks up the clusters of a hub whose list decides how they are reached. A name that is not
    /// in the list, or that points elsewhere, is an error.
    fn look_up<'a>(&self, clusters: impl IntoIterator<Item = &'a ClusterName>) -> Result<(), Failure> {
        let host = self.host.get()?;
        if !host.context().hub.dialect.needs_list() || preflight::needs_no_server(self.scanned) {
            return Ok(());
        }
        let list = inventory::list(host, None, ListFormat::Objects)?;
        let known = members(&list);
        match clusters.into_iter().find(|name| !known.contains(name)) {
            Some(name) => match inventory::not_here(&list, name, host.context()) {
                Some(error) => Err(error.into()),
                None => Err(SelectionError::Unknown { name: name.clone(), known }.into()),
            },
            None => Ok(()),
        }
    }

    /// Runs kubectl on a member, or on a context, which it reaches without the plugin. On Unix a success does not
    /// return, because kubectl replaces this process.
    fn one(&self, cluster: &ClusterId) -> Result<ExitStatus, Failure> {
        let Self { scanned, settings, env, printer, .. } = *self;
        let now = SystemTime::now();
        rewrite::check(scanned, cluster)?;
        let (context, through) = match cluster {
            ClusterId::Context(context) => {
                context.cluster.check_usable()?;
                check_policy(&context.cluster, scanned, env)?;
                (&context.cluster, None)
            }
            ClusterId::Member(name) => {
                let host = self.host.get()?.context();
                check_policy(host, scanned, env)?;
                self.look_up([name])?;
                (host, Some(self.through(now)?))
            }
        };
        if let Some((plan, take_over)) = Plan::for_one(scanned, env) {
            let host = through.as_ref().map(Through::reach).transpose();
            let reach = host.map(|host| Reach { host });
            if let Some(status) = direct::run(&plan, take_over, self, cluster, reach)? {
                return Ok(status);
            }
        }
        let by = through.map_or_else(|| context.clone(), |through| through.found());
        let kubectl = Kubectl::find(env)?;
        let kind = if cluster.member().is_some() { "cluster" } else { "context" };
        Log::new(env).decision("Run kubectl", &[(kind, cluster), ("path", &kubectl.path().display())]);
        let cache = Cache::open(env)?;
        let overlay = match cluster.member() {
            Some(member) => self.checked_overlay(member, context, &by, &cache, now)?,
            None => overlay::overlay_json(&by, cluster)?,
        };
        // The overlay is stored only now, so a cached overlay means that the cluster was not refused.
        let file = cache.store(&overlay, now)?;
        // For a context, kubectl handles the path of --raw itself.
        let raw = match cluster.member().and_then(|_| rewrite::uses_raw(scanned)) {
            Some(_) => {
                let kubeconfig = rewrite::kubeconfig_list(&by, &file)?;
                RawPath::of_minor_version(kubectl.minor_version(&kubeconfig)?)
            }
            None => RawPath::Joined,
        };
        let invocation = rewrite::rewrite(scanned.clone(), &by, cluster, &file, raw)?;
        if settings.fleet.keep {
            return multi::keep_one(&kubectl, &invocation, printer);
        }
        let input = multi::unmarked_file(scanned, cache.folder())?;
        Ok(kubectl.run(invocation, input)?)
    }

    /// The overlay of a member, after the requests that show whether a hop refuses it; `by` is the
    /// route to the members of `host`.
    fn checked_overlay(
        &self,
        cluster: &ClusterName,
        host: &ClusterContext,
        by: &ClusterContext,
        cache: &Cache,
        now: SystemTime,
    ) -> Result<Vec<u8>, Failure> {
        let Self { scanned, env, .. } = *self;
        let content = overlay::overlay_json(by, &cluster.clone().into())?;
        if preflight::is_needed(scanned, by, cluster, env, cache.holds(&content), now) {
            preflight::run(by, cluster, scanned, env)?;
        }
        if self_review::is_sent(scanned)
            && !by.is_direct
            && !by.hub.is_foreign()
            && self_review::check(host, cluster, scanned, env)? == Subresource::SelfReviews
        {
            return overlay::self_review_overlay_json(by, cluster);
        }
        Ok(content)
    }
}

/// The members of a list.
fn members(list: &Value) -> Vec<ClusterName> {
    SelectedCluster::of_list(list).iter().filter_map(|cluster| cluster.member().cloned()).collect()
}

/// Refuses a credential plugin that the user's policy forbids, because kubectl before 1.35 does not
/// enforce the policy. A command without a request does not run the plugin.
fn check_policy(context: &ClusterContext, scanned: &Scanned, env: &Env) -> Result<(), Failure> {
    if preflight::needs_no_server(scanned) {
        return Ok(());
    }
    credential::check_policy(context, scanned, env)
}
