//! Implements `kubectl mc clusters`: lists the clusters behind the host in the format of kubectl.

mod contexts;

use std::ffi::OsString;

use kubectl_mc_api::dialect::Resource;
use kubectl_mc_api::{ClusterName, path};
use serde_json::Value;

use crate::argv::Scanned;
use crate::cli::{ClustersArgs, Flags, Output};
use crate::cluster::context::ClusterContext;
use crate::cluster::fields::items;
use crate::cluster::host::Host;
use crate::cluster::inventory::{self, ListFormat};
use crate::env::Env;
use crate::error::{CommandLine, Context, Failure};
use crate::exit::ExitStatus;
use crate::json;
use crate::kubectl::exec::{Invocation, Kubectl};
use crate::multi::direct::render_table;
use crate::multi::selection::{FieldFilter, SelectedCluster, SelectionError};
use crate::printer::Printer;
use crate::settings::Settings;
use crate::yaml;

pub(super) fn run(
    arguments: &ClustersArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    if flags.chooses_contexts() {
        return contexts::run(arguments, flags, env, printer);
    }
    let ClustersArgs { names, output, selector, no_headers, .. } = arguments;
    let for_kubectl = served_by_kubectl(arguments).next();
    // The default cluster does not filter this list, so its variable is not read.
    let (options, scanned) = (Settings::host_of(flags, env)?, Scanned::default());
    let filter = FieldFilter::parse(&flags.r#where).context(|| "--where")?;
    if !filter.is_empty()
        && let Some(other) = given_names(arguments).or(for_kubectl)
    {
        let hint = "--where takes the table, -o wide, json, yaml or name, and -l";
        return Err(Failure::usage(format!("--where cannot be combined with {other}")).with_hint(hint));
    }
    let listed_by = Host::find(&options, &scanned, env)?;
    let host = listed_by.context();
    if !names.is_empty() || for_kubectl.is_some() {
        if !host.hub.is_foreign() {
            return by_kubectl(arguments, host, env);
        }
        if let Some(given) = for_kubectl {
            return Err(of_own_hub(given, host));
        }
    }
    let form = if matches!(output, Some(Output::Json | Output::Yaml)) {
        ListFormat::Objects
    } else if filter.is_empty() {
        ListFormat::Table
    } else {
        ListFormat::TableWithObjects
    };
    let mut answer = inventory::list(&listed_by, selector.as_deref(), form)?;
    if !filter.is_empty() {
        retain(&mut answer, |item| {
            SelectedCluster::of_item(item).is_some_and(|cluster| filter.matches(&cluster))
        });
    }
    if !names.is_empty() {
        let known = listed(&answer);
        if let Some(name) = names.iter().find(|name| !known.contains(name)) {
            return Err(SelectionError::Unknown { name: name.clone(), known }.into());
        }
        retain(&mut answer, |item| names.iter().any(|name| item["metadata"]["name"] == name.as_str()));
    }
    if let Some(unusable) = inventory::unusable(&answer) {
        printer.note_line(&format!("warning: {unusable}"));
    }
    let is_table = matches!(output, None | Some(Output::Wide));
    if is_table && host.hub.is_foreign() {
        printer.note_line(&format!("hub: {}", host.hub.dialect.title()));
    }
    match output {
        None | Some(Output::Wide | Output::Template(_)) => {
            let is_filtered = !filter.is_empty() || selector.is_some();
            match render_table(&answer, output.is_some(), *no_headers).0 {
                text if text.is_empty() && is_filtered => printer.note("No resources found\n"),
                text if text.is_empty() => printer.note_line(&nothing_visible(host)),
                text => printer.out(&text),
            }
        }
        Some(Output::Name) => {
            for name in render_table(&answer, false, true).1 {
                printer.out_line(&format!("cluster.{}/{name}", path::PROXY_GROUP));
            }
        }
        Some(Output::Json) => printer.out(&(json::text(&as_list(answer), 0) + "\n")),
        Some(Output::Yaml) => printer.out(&yaml::text(&as_list(answer), 0)),
    }
    Ok(ExitStatus::Success)
}

/// The names in a list, or in a table.
fn listed(answer: &Value) -> Vec<ClusterName> {
    let rows = answer["rows"].as_array().into_iter().flatten().map(|row| &row["object"]);
    items(answer).chain(rows).filter_map(|item| item["metadata"]["name"].as_str()?.parse().ok()).collect()
}

/// Keeps the clusters of a list, or the rows of a table, that match.
fn retain(answer: &mut Value, matches: impl Fn(&Value) -> bool) {
    if let Some(items) = answer.get_mut("items").and_then(Value::as_array_mut) {
        items.retain(&matches);
    }
    if let Some(rows) = answer.get_mut("rows").and_then(Value::as_array_mut) {
        rows.retain(|row| row.get("object").is_some_and(&matches));
    }
}

/// The given arguments that only kubectl handles, for the list of kubectl-mc's sidecar.
fn served_by_kubectl(arguments: &ClustersArgs) -> impl Iterator<Item = &'static str> {
    let ClustersArgs { names: _, output, selector: _, no_headers: _, show_labels, sort_by, watch } =
        arguments;
    let given = [
        (*show_labels, "--show-labels"),
        (sort_by.is_some(), "--sort-by"),
        (*watch, "--watch"),
        (matches!(output, Some(Output::Template(_))), "a template"),
    ];
    given.into_iter().filter_map(|(is_given, name)| is_given.then_some(name))
}

fn given_names(arguments: &ClustersArgs) -> Option<&'static str> {
    (!arguments.names.is_empty()).then_some("names of clusters")
}

/// Lets kubectl print the list for its own output options: names, watches, sorting, labels and templates.
fn by_kubectl(arguments: &ClustersArgs, host: &ClusterContext, env: &Env) -> Result<ExitStatus, Failure> {
    let ClustersArgs { names, output, selector, no_headers, show_labels, sort_by, watch } = arguments;
    let value = |flag: &str, value: Option<&str>| value.map(|value| format!("--{flag}={value}").into());
    let switch = |flag: &str, on: bool| on.then(|| format!("--{flag}").into());
    let flags = [
        value("context", host.context.as_deref()),
        value("output", output.as_ref().map(Output::word)),
        value("selector", selector.as_deref()),
        value("sort-by", sort_by.as_deref()),
        switch("no-headers", *no_headers),
        switch("show-labels", *show_labels),
        switch("watch", *watch),
    ];
    let words: [OsString; 2] = ["get".into(), format!("{}.{}", path::CLUSTERS, path::PROXY_GROUP).into()];
    let names = names.iter().map(|name| name.as_str().into());
    let arguments = words.into_iter().chain(names).chain(flags.into_iter().flatten()).collect();
    let kubeconfig = std::env::join_paths(&host.files).unwrap_or_default();
    Ok(Kubectl::find(env)?.run(Invocation { arguments, kubeconfig }, None)?)
}

/// The sidecar lists the clusters that the caller may use, so an empty list has two causes.
fn nothing_visible(host: &ClusterContext) -> String {
    let host_name = host.describe();
    if host.hub.is_foreign() {
        return format!("No clusters found: {host_name} shows you none");
    }
    format!(
        "No clusters found: {host_name} has none (add one: {kubectl_mc} join NAME --member-context=CONTEXT), or none that you \
         may use (an admin grants access: {kubectl_mc} access grant view --user=NAME -C CLUSTER)",
        kubectl_mc = host.kubectl_mc()
    )
}

/// Converts a list into a `v1` `List`, as kubectl prints every list.
fn as_list(answer: Value) -> Value {
    let items: Vec<Value> = answer.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    // Items of a typed list may lack their type.
    let items: Vec<Value> = items
        .into_iter()
        .map(|mut item| {
            if let Some(fields) = item.as_object_mut() {
                fields.entry("apiVersion").or_insert_with(|| path::PROXY_GROUP_VERSION.into());
                fields.entry("kind").or_insert_with(|| "Cluster".into());
            }
            item
        })
        .collect();
    serde_json::json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})
}

fn of_own_hub(given: &str, host: &ClusterContext) -> Failure {
    let failure = Failure::usage(format!(
        "{given} needs the list of kubectl-mc's own sidecar, and clusters are listed by {}",
        host.describe()
    ));
    match host.hub.dialect.resource() {
        Some(Resource { group, name, .. }) => failure.with_hint(
            CommandLine::new(format!("{} get {name}.{group}", host.kubectl()))
                .after("list the hub's own objects"),
        ),
        None => failure,
    }
}
