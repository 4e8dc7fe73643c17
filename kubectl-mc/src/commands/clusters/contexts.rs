//! Implements `kubectl mc clusters --contexts`: lists the contexts of the kubeconfig, without a request.

use serde_json::{Value, json};

use super::{given_names, served_by_kubectl};
use crate::cli::{ClustersArgs, Flags, Output};
use crate::cluster::cluster_id::KubeconfigContext;
use crate::cluster::context::{self, Collision, HostError};
use crate::config_file;
use crate::env::Env;
use crate::error::{Context, Failure};
use crate::exit::ExitStatus;
use crate::json;
use crate::log::without_credential;
use crate::multi::selection::{ContextFilter, ListOf, SelectedCluster};
use crate::next_command::GivenFlags;
use crate::printer::Printer;
use crate::server_text::escaped;
use crate::settings::Settings;
use crate::tabwriter::TabWriter;
use crate::yaml;

pub(super) fn run(
    arguments: &ClustersArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    if let Some(flag) = of_members(arguments, flags) {
        return Err(Failure::usage(format!("--contexts cannot be combined with {flag}")).with_hint(HINT));
    }
    let filter = flags.context_selector.as_deref().map(ContextFilter::parse).transpose();
    let filter = filter.context(|| "--context-selector")?;
    let settings = Settings::resolve(flags, env)?;
    let contexts = match context::contexts(&settings.host, env) {
        Err(none @ HostError::NoContexts { .. }) => {
            printer.note_line(&none.to_string());
            return Ok(ExitStatus::Success);
        }
        contexts => contexts?,
    };
    contexts.notes().for_each(|note| printer.note_line(&note));
    warn_of_collisions(&context::collisions(&settings.host, env)?, printer);
    let found = SelectedCluster::of_contexts(contexts.all);
    let is_wanted = |chosen: &&SelectedCluster| {
        let context = chosen.name.context();
        filter.as_ref().is_none_or(|filter| context.is_some_and(|context| filter.matches(context)))
    };
    let mut all: Vec<_> = found.iter().filter(is_wanted).cloned().collect();
    if let Some(choice) = settings.choice.filter(|_| !flags.cluster.is_empty() || !flags.exclude.is_empty()) {
        let chosen = choice.resolve(&settings.sets, &mut |from: &ListOf| match from {
            ListOf::Contexts => Ok(found.clone()),
            // The members of a set are not contexts.
            ListOf::Members(_) => Ok(Vec::new()),
        });
        all = chosen.map_err(|error| error.in_file(config_file::path(env)))?.iter().cloned().collect();
    }
    let (all, unusable): (Vec<_>, Vec<_>) = all
        .iter()
        .filter_map(|chosen| chosen.name.context())
        .partition(|context| context.cluster.check_usable().is_ok());
    let data = || json!(all.iter().copied().map(object).collect::<Vec<_>>());
    match arguments.output {
        Some(Output::Name) => all.iter().for_each(|context| printer.out_line(context.raw_name())),
        Some(Output::Json) => printer.out(&(json::text(&data(), 0) + "\n")),
        Some(Output::Yaml) => printer.out(&yaml::text(&data(), 0)),
        None | Some(Output::Wide | Output::Template(_)) if all.is_empty() && unusable.is_empty() => {
            printer.note("No contexts found\n")
        }
        None | Some(Output::Wide | Output::Template(_)) if all.is_empty() => {}
        None | Some(Output::Wide | Output::Template(_)) => {
            printer.out(&table(&all, arguments.no_headers));
        }
    }
    for context in &unusable {
        if let Err(error) = context.cluster.check_usable() {
            printer.note_line(&format!(
                "error: {}: {}",
                escaped(context.raw_name()),
                escaped(&error.to_string())
            ));
        }
    }
    Ok(match (unusable.is_empty(), all.is_empty()) {
        (true, _) => ExitStatus::Success,
        (false, false) => ExitStatus::SomeFailed,
        (false, true) => ExitStatus::AllFailed,
    })
}

/// Warns about the entries that no context can use, because an earlier file has others with the
/// same name.
fn warn_of_collisions(collisions: &[Collision], printer: &Printer) {
    for collision in collisions.iter().take(COLLISIONS) {
        printer.note_line(&format!("warning: {}", escaped(&collision.to_string())));
    }
    if let Some(more @ 1..) = collisions.len().checked_sub(COLLISIONS) {
        printer.note_line(&format!("warning: and {more} more: kubectl mc doctor --contexts"));
    }
    if !collisions.is_empty() {
        let apart = GivenFlags::new(None, None).with_dirs(&context::kept_apart(collisions));
        printer.note_line(&format!("hint: read each file alone: {} clusters --contexts", apart.kubectl_mc()));
    }
}

/// More lines would hide the list.
const COLLISIONS: usize = 10;

fn table(all: &[&KubeconfigContext], no_headers: bool) -> String {
    let mut writer = TabWriter::default();
    if !no_headers {
        writer.line("NAME\tSERVER\tUSER\tNAMESPACE");
    }
    for context in all {
        let object = object(context);
        let cells =
            ["name", "server", "user", "namespace"].map(|key| escaped(object[key].as_str().unwrap_or("")));
        writer.line(&cells.join("\t"));
    }
    writer.flush()
}

fn object(context: &KubeconfigContext) -> Value {
    let cluster = &context.cluster;
    let mut object = json!({
        "name": context.raw_name(),
        "server": without_credential(&cluster.server),
        "user": cluster.user_name().unwrap_or_default(),
        "namespace": cluster.namespace.as_deref().unwrap_or("default"),
    });
    if let (Some(_), Some(file)) = (&cluster.island, cluster.files.first()) {
        object["file"] = file.to_string_lossy().into();
        object["context"] = cluster.context.as_deref().unwrap_or_default().into();
    }
    object
}

/// The first given argument that is only supported for the host's list.
fn of_members(arguments: &ClustersArgs, flags: &Flags) -> Option<&'static str> {
    let selector = arguments.selector.is_some().then_some("--selector");
    let filter = (!flags.r#where.is_empty()).then_some("--where");
    given_names(arguments).or(selector).or(filter).or_else(|| served_by_kubectl(arguments).next())
}

const HINT: &str = "-C NAMES chooses contexts by name, and --context-selector narrows the contexts by server, user and namespace";
