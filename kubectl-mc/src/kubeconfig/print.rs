//! Implements `kubectl mc kubeconfig`: prints the contexts of members, or merges them into the user's
//! kubeconfig.

use serde_json::{Value, json};

use super::entries::{self, MemberEntry};
use super::selection::Members;
use super::{merge, users};
use crate::cli::{DataFormat, Flags, KubeconfigArgs};
use crate::cluster::context::{ClusterContext, User};
use crate::env::Env;
use crate::error::{Failure, mc};
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::settings::Settings;
use crate::{json, yaml};

pub(crate) fn run(
    arguments: &KubeconfigArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let KubeconfigArgs { clusters, context_prefix, standalone, merge, prune, fleet, output } = arguments;
    let (host, entries, all) = match fleet {
        Some(name) => {
            let host = host_of_fleet(flags, env)?;
            let entry = entries::fleet(&host, format!("{context_prefix}{name}"))?;
            (host, vec![entry], None)
        }
        None => {
            let Members { host, clusters, all } = Members::resolve(clusters, *prune, flags, env, printer)?;
            let entries = entries::entries(&host, &clusters, context_prefix)?;
            (host, entries, all)
        }
    };
    if *merge {
        let gone = prune.then_some(all).flatten();
        let report = merge::run(&host, &entries, gone.as_deref(), env)?;
        printer.note_line(&report.to_string());
        return Ok(ExitStatus::Success);
    }
    let users = match (&host.user, standalone) {
        (User::Named(_), false) => {
            entries::check_names(&entries, &host)?;
            Vec::new()
        }
        (User::Named(_), true) => users::standalone(&host)?,
        (User::Inline(..) | User::ServiceAccount(_), _) => users::of_pod(&host),
    };
    users::check_urls(&host)?;
    let document = document(&host, entries, users);
    match output.unwrap_or(DataFormat::Yaml) {
        DataFormat::Yaml => printer.out(&yaml::text(&document, 0)),
        DataFormat::Json => printer.out(&format!("{}\n", json::text(&document, 0))),
    }
    Ok(ExitStatus::Success)
}

/// The host, for a context that has all its members.
fn host_of_fleet(flags: &Flags, env: &Env) -> Result<ClusterContext, Failure> {
    if flags.chooses_clusters() {
        return Err(Failure::usage("--fleet has all members that you may use: no cluster can be chosen")
            .with_hint(mc("kubeconfig").after("writes a context for each chosen member")));
    }
    Ok(ClusterContext::load(&Settings::host_of(flags, env)?, env)?)
}

/// A kubeconfig with these entries. It sets a current context only if it is complete and has one context, so
/// that it changes nothing when it is used with the user's own files.
fn document(host: &ClusterContext, entries: Vec<MemberEntry>, users: Vec<Value>) -> Value {
    let is_complete = !users.is_empty() || matches!(host.user, User::Named(None));
    let current = match entries.as_slice() {
        [only] if is_complete => only.name.clone(),
        _ => String::new(),
    };
    let (clusters, contexts): (Vec<_>, Vec<_>) =
        entries.into_iter().map(|entry| (entry.cluster, entry.context)).unzip();
    let mut document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": clusters,
        "contexts": contexts,
        "current-context": current,
    });
    if !users.is_empty() {
        document["users"] = users.into();
    }
    document
}
