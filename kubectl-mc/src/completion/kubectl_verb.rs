//! Completes the command line of a verb of kubectl: the plugin completes its own flags, and kubectl
//! completes the rest with a kubeconfig for the member.

use std::ffi::{OsStr, OsString};
use std::time::SystemTime;

use clap::{Arg, Command};

use super::answer::{Answer, Candidate, VERB};
use super::cursor::{Cursor, Place};
use super::session::Session;
use super::{child, clusters, own_verb, values};
use crate::argv::{self, COMPARE, KUBECTL_VERBS, Scanned, TAIL};
use crate::cache::Cache;
use crate::chosen_cluster::ChosenCluster;
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::ClusterContext;
use crate::cluster::credential;
use crate::kubectl::exec::{Invocation, Kubectl};
use crate::kubectl::{overlay, rewrite};
use crate::multi::direct::NDJSON;
use crate::multi::selection::{Kind, ListOf};

pub(super) fn respond(session: &Session<'_>, parser: &Command, cursor: &Cursor, typed: &str) -> Answer {
    let before = &cursor.before;
    let Some(verb) = before.verb() else { return verbs_or_flags(session, parser, cursor, typed) };
    match cursor.place {
        Place::Word => {}
        Place::KubectlValue if is_output_of_get(before) => {
            return ndjson(typed).and(on_member(session, before, typed));
        }
        Place::AfterDashes | Place::KubectlValue | Place::OwnValue(_) => {
            return on_member(session, before, typed);
        }
    }
    if let Some(answer) = own_value(session, parser, Some(verb), typed) {
        return answer;
    }
    if let Some(value) = typed.strip_prefix("--output=").filter(|_| verb == "get") {
        return ndjson(value).and(on_member(session, before, typed));
    }
    if typed.starts_with("--") && typed.contains('=') {
        let strategies = ["--dry-run=clusters"].into_iter().filter(|word| word.starts_with(typed));
        let clusters =
            Answer::words(strategies.filter_map(|word| word.split_once('=').map(|(_, value)| value)));
        return clusters.and(on_member(session, before, typed));
    }
    if typed.starts_with('-') {
        let own = own_flags(parser, Some(verb), typed);
        // The flags of a plugin's verb that takes the arguments of a verb of kubectl.
        if let Some(verb) = parser.find_subcommand(verb).filter(|verb| is_like_kubectl(verb)) {
            return own_verb::flags(verb.get_arguments(), typed).and(own);
        }
        return own.and(flags_of_kubectl(session, parser, before, typed));
    }
    if verb == "help" {
        return own_verb::subcommands(parser, typed).and(without_cluster(session, before, typed));
    }
    if is_group(before) {
        return without_cluster(session, before, typed);
    }
    on_member(session, before, typed)
}

/// Whether the last word takes the output format of `get`.
fn is_output_of_get(before: &Scanned) -> bool {
    let last = before.kubectl.last().map(OsString::as_os_str).unwrap_or_default();
    before.verb().is_some_and(|verb| verb == "get") && (last == "-o" || last == "--output")
}

/// The output format that kubectl does not have.
fn ndjson(typed: &str) -> Answer {
    Answer::words([NDJSON]).beginning_with(typed)
}

fn verbs_or_flags(session: &Session<'_>, parser: &Command, cursor: &Cursor, typed: &str) -> Answer {
    let before = &cursor.before;
    if matches!(cursor.place, Place::KubectlValue) {
        return on_member(session, before, typed);
    }
    if let Some(answer) = own_value(session, parser, None, typed) {
        return answer;
    }
    if typed.starts_with('-') {
        return own_flags(parser, None, typed).and(flags_of_kubectl(session, parser, before, typed));
    }
    let mut kubectl = without_cluster(session, before, typed);
    if kubectl.candidates.is_empty() {
        kubectl = KUBECTL_VERBS.iter().filter_map(|verb| Candidate::new(verb, "")).collect();
    }
    // `config` is refused together with a cluster, and the plugin does not run below itself.
    let kubectl = kubectl.without(|verb| matches!(verb, "config" | "mc"));
    own_verb::subcommands(parser, typed).and(kubectl.beginning_with(typed))
}

/// Completes the value of a plugin flag inside the flag's word: `--cluster=m`, `-Cm`.
fn own_value(session: &Session<'_>, parser: &Command, verb: Option<&OsStr>, typed: &str) -> Option<Answer> {
    if let Some(value) = typed.strip_prefix("-C").filter(|value| !value.is_empty()) {
        return Some(clusters::several(session, value).behind("-C"));
    }
    let (flag, value) = typed.split_once('=')?;
    let is_own = argv::is_own(flag.strip_prefix("--")?, verb) || (flag == "--dry-run" && verb.is_none());
    is_own.then(|| values::of_flag(session, parser.get_arguments(), flag, value))
}

/// The plugin flags that may follow the verb.
fn own_flags(parser: &Command, verb: Option<&OsStr>, typed: &str) -> Answer {
    let is_ours =
        |flag: &&Arg| flag.get_long().is_some_and(|name| verb.is_none() || argv::is_own(name, verb));
    own_verb::flags(parser.get_arguments().filter(is_ours), typed)
}

/// The flags of kubectl except those that the plugin handles or that conflict with a cluster.
fn flags_of_kubectl(session: &Session<'_>, parser: &Command, before: &Scanned, typed: &str) -> Answer {
    let verb = before.verb();
    let is_refused = |word: &str| {
        let own = parser.get_arguments().filter_map(Arg::get_long);
        let name = word.strip_prefix("--").unwrap_or_default();
        matches!(word, "--server" | "-s")
            || (own.into_iter().any(|own| own == name) && argv::is_own(name, verb))
    };
    without_cluster(session, before, typed).without(is_refused)
}

/// The candidates of kubectl without a request: its verbs and their flags.
fn without_cluster(session: &Session<'_>, before: &Scanned, typed: &str) -> Answer {
    let output = || {
        let kubectl = values::plain_kubectl(session, words(before, typed))?;
        child::output(kubectl, session.deadline)
    };
    Answer::parse(&String::from_utf8_lossy(&output().unwrap_or_default()), typed)
}

/// The candidates of kubectl for the chosen cluster; empty without a cluster.
fn on_member(session: &Session<'_>, before: &Scanned, typed: &str) -> Answer {
    let output = || {
        let host = || ClusterContext::load_for(before, &session.host, session.env).ok();
        let cluster = cluster(session, host)?;
        let host = match cluster.context() {
            Some(context) => context.cluster.clone(),
            None => host()?,
        };
        credential::check_policy(&host, before, session.env).ok()?;
        clusters::learn_ids(session, &host);
        // Not stored with the overlays of commands, because those indicate that the cluster was
        // reached.
        let overlay = overlay::overlay_json(&host, &cluster).ok()?;
        let name = String::from_utf8_lossy(&overlay);
        let overlay =
            Cache::open(session.env).ok()?.store_named(KIND, &name, &overlay, SystemTime::now()).ok()?;
        let kubeconfig = rewrite::kubeconfig_list(&host, &overlay).ok()?;
        let kubectl = Kubectl::find(session.env).ok()?;
        child::output(
            kubectl.child(Invocation { arguments: words(before, typed), kubeconfig }),
            session.deadline,
        )
    };
    Answer::parse(&String::from_utf8_lossy(&output().unwrap_or_default()), typed)
}

/// The chosen cluster, or the first of several that is ready according to the host.
fn cluster(session: &Session<'_>, host: impl FnOnce() -> Option<ClusterContext>) -> Option<ClusterId> {
    let Some(choice) = &session.choice else {
        // `kubectl mc use` chooses among members.
        if session.from == Kind::Contexts {
            return None;
        }
        return ChosenCluster::load(&host()?, session.env).ok()?.cluster.map(ClusterId::from);
    };
    if let Some(name) = choice.exact() {
        return Some(name.clone().into());
    }
    let chosen = choice.resolve(&session.sets, &mut |from| Ok(clusters::all(session, from))).ok()?;
    if let Some(context) = chosen.names().find(|cluster| cluster.context().is_some()) {
        return Some(context.clone());
    }
    let down: Vec<_> = clusters::all(session, &ListOf::Members(None))
        .into_iter()
        .filter(|one| one.not_ready().is_some())
        .collect();
    let mut answering = chosen.names().filter(|name| !down.iter().any(|down| down.name == **name));
    answering.next().or_else(|| chosen.names().next()).cloned()
}

/// The arguments for kubectl's own completion.
fn words(before: &Scanned, typed: &str) -> Vec<OsString> {
    let mut words = before.kubectl.clone();
    let verb = words.iter().position(|word| Some(word.as_os_str()) == before.verb());
    if let Some(verb) = verb {
        if words[verb] == COMPARE {
            words[verb] = "get".into();
            // `compare get TYPE` is `compare TYPE`.
            if words.get(verb + 1).is_some_and(|word| word == "get") {
                words.remove(verb + 1);
            }
        } else if words[verb] == TAIL {
            words[verb] = "logs".into();
        }
    }
    std::iter::once(VERB.into()).chain(words).chain([typed.into()]).collect()
}

fn is_like_kubectl(verb: &Command) -> bool {
    matches!(verb.get_name(), COMPARE | TAIL)
}

/// Whether a subcommand of kubectl is next, which needs no cluster.
fn is_group(before: &Scanned) -> bool {
    let verb = before.verb().and_then(OsStr::to_str).unwrap_or_default();
    GROUPS.contains(&verb) && before.word_after_verb().is_none()
}

const GROUPS: &[&str] = &["alpha", "auth", "certificate", "create", "kuberc", "rollout", "set", "top"];
const KIND: &str = "completion-overlay";
