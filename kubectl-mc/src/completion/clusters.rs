//! Completes cluster names: the contexts of the kubeconfig, or the clusters behind the host, by running
//! `kubectl mc clusters` until the deadline. The list is cached for a short time, and for a day while the
//! host does not respond.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::answer::{Answer, Candidate};
use super::child;
use super::session::Session;
use crate::cache::Cache;
use crate::cluster::cluster_id::{CONTEXT_PREFIX, KubeconfigContext};
use crate::cluster::context::{self, ClusterContext};
use crate::cluster::fields::items;
use crate::config_file::ClusterSet;
use crate::env::{KUBECONFIG, KUBERC};
use crate::log::without_credential;
use crate::multi::selection::{Kind, ListOf, SelectedCluster, selects_context};

/// The known clusters to choose from.
pub(super) fn all(session: &Session<'_>, from: &ListOf) -> Vec<SelectedCluster> {
    match from {
        ListOf::Members(selector) => list(session, selector.as_deref()),
        ListOf::Contexts => SelectedCluster::of_contexts(known_contexts(session)),
    }
}

/// Sets the ids that the paths of some hubs contain, as far as they are known.
pub(super) fn learn_ids(session: &Session<'_>, host: &ClusterContext) {
    if !host.hub.dialect.has_ids() {
        return;
    }
    let list = json(session, host, None);
    let id = |item: &Value| {
        let text = |at: &str| item.pointer(at).and_then(Value::as_str);
        Some((text("/metadata/name")?.parse().ok()?, text("/status/id")?.parse().ok()?))
    };
    host.hub.learn(items(&list).filter_map(id).collect());
}

/// The known clusters that a label selector matches.
fn list(session: &Session<'_>, selector: Option<&str>) -> Vec<SelectedCluster> {
    let Ok(host) = ClusterContext::load(&session.host, session.env) else { return Vec::new() };
    SelectedCluster::of_list(&json(session, &host, selector))
}

/// The same list as JSON.
fn json(session: &Session<'_>, host: &ClusterContext, selector: Option<&str>) -> Value {
    let now = SystemTime::now();
    let cache = Cache::open(session.env).ok();
    let key = key(host, selector);
    let kept = cache.as_ref().and_then(|cache| cache.load_aged(KIND, &key, now));
    let list = match kept {
        Some((list, age)) if age < FRESH => list,
        kept => match child::output(command(session, selector), session.deadline) {
            Some(list) => {
                // If the cache cannot be written, the next response is only slower.
                let _ = cache.map(|cache| cache.store_named(KIND, &key, &list, now));
                list
            }
            None => kept.filter(|(_, age)| *age < STALE).map(|(list, _)| list).unwrap_or_default(),
        },
    };
    serde_json::from_slice(&list).unwrap_or_default()
}

/// Candidates for a flag or an argument that takes one cluster, which is a member.
pub(super) fn one(session: &Session<'_>, typed: &str) -> Answer {
    match session.from {
        Kind::Members => names(&list(session, None)).beginning_with(typed),
        Kind::Contexts => Answer::default(),
    }
}

/// Candidates for a list with commas: names, `@sets` and `!exclusions`. A pattern is not completed.
pub(super) fn several(session: &Session<'_>, typed: &str) -> Answer {
    let (before, term) =
        typed.rsplit_once(',').map_or(("", typed), |(_, term)| typed.split_at(typed.len() - term.len()));
    let body = term.strip_prefix('!').unwrap_or(term);
    // A regular expression may contain a comma, and a context's name may contain a slash.
    if typed.split(',').any(is_expression) || body.contains(['*', '?', '[']) {
        return Answer::default();
    }
    let sets = |is_offered: &dyn Fn(&str) -> bool| {
        let sets = session.sets.keys().filter(|set| is_offered(set));
        sets.filter_map(|set| Candidate::new(&format!("@{set}"), "set of clusters")).collect()
    };
    let with_contexts = |set: &str| has_contexts(&session.sets, set, session.sets.len());
    let found = match session.from {
        _ if body.starts_with(CONTEXT_PREFIX) => contexts(session, CONTEXT_PREFIX),
        Kind::Members if body.starts_with('@') => sets(&|_| true),
        Kind::Contexts if body.starts_with('@') => sets(&with_contexts),
        Kind::Members => names(&list(session, None)).and(sets(&|_| true)),
        Kind::Contexts => contexts(session, "").and(sets(&with_contexts)),
    };
    let named: Vec<_> = before.split(',').map(|named| named.trim_start_matches('!')).collect();
    let sign = if body.len() < term.len() { "!" } else { "" };
    found.beginning_with(body).without(|word| named.contains(&word)).behind(&format!("{before}{sign}"))
}

fn is_expression(term: &str) -> bool {
    let body = term.strip_prefix('!').unwrap_or(term);
    body.strip_prefix(CONTEXT_PREFIX).unwrap_or(body).starts_with('/')
}

/// The contexts of the kubeconfig, which needs no request. Names that a term cannot express are
/// omitted.
fn contexts(session: &Session<'_>, prefix: &str) -> Answer {
    let all = known_contexts(session);
    let candidate = |context: &KubeconfigContext| {
        let name = context.raw_name();
        let is_offered = session.filter.matches(context) && selects_context(&format!("{prefix}{name}"), name);
        is_offered.then(|| Candidate::new(name, &without_credential(&context.cluster.server)))?
    };
    all.iter().filter_map(candidate).collect::<Answer>().behind(prefix)
}

/// The contexts that can be used.
fn known_contexts(session: &Session<'_>) -> Vec<KubeconfigContext> {
    let mut all = context::contexts(&session.host, session.env).unwrap_or_default().all;
    all.retain(|context| context.cluster.check_usable().is_ok());
    all
}

/// Whether a set contains contexts, directly or through nested sets, down to a depth of `depth`.
fn has_contexts(sets: &BTreeMap<String, ClusterSet>, set: &str, depth: usize) -> bool {
    let terms = sets.get(set).into_iter().flat_map(|set| &set.clusters).flat_map(|text| text.split(','));
    terms.into_iter().any(|term| match term.strip_prefix('@') {
        Some(inner) => depth > 0 && has_contexts(sets, inner, depth - 1),
        None => term.starts_with(CONTEXT_PREFIX),
    })
}

fn names(clusters: &[SelectedCluster]) -> Answer {
    let candidate = |cluster: &SelectedCluster| {
        let version = cluster.listed.as_ref().and_then(|listed| listed.version.as_ref());
        let version = version.map(|version| version.to_string()).unwrap_or_default();
        let about = if cluster.not_ready().is_some() { "not ready".to_owned() } else { version };
        Candidate::new(cluster.name.as_str(), &about)
    };
    clusters.iter().filter_map(candidate).collect()
}

/// The command that lists the clusters, run by this program.
fn command(session: &Session<'_>, selector: Option<&str>) -> Command {
    let mut command = Command::new(&session.program);
    // Under the name of the completion program, it would complete again.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::arg0(&mut command, "kubectl-mc");
    command.args(["clusters", "--output=json"]).args(session.host_flags());
    if let Some(selector) = selector {
        command.arg(format!("--selector={selector}"));
    }
    // A kubeconfig from a pipe has been copied.
    if let Some(kubeconfig) = session.env.var(KUBECONFIG) {
        command.env(KUBECONFIG, kubeconfig);
    }
    // The policy for credential plugins.
    if let Some(kuberc) = &session.kuberc {
        command.env(KUBERC, kuberc);
    }
    command
}

/// The cache key: there is a list for each caller on each host.
fn key(host: &ClusterContext, selector: Option<&str>) -> String {
    let user = host.user_name().unwrap_or_default();
    let hub = host.hub.dialect.to_string();
    format!("{:?}", (&host.context, &host.server, hub, user, &host.files, selector))
}

const KIND: &str = "completion";
/// Maximum delay until a new cluster is offered. Completions in quick succession send no request.
const FRESH: Duration = Duration::from_secs(30);
/// Maximum age of names during an outage of the host.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);
