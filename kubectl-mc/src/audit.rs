//! Implements `kubectl mc audit`: shows one request by its Audit-ID, from the audit events of the sidecar.
//!
//! - [`source`]: the events of a request, from files or from the logs of the sidecar's pods
//! - [`story`]: the events as readable text

mod source;
mod story;

use serde_json::Value;

use crate::cli::{AuditArgs, DataFormat, Flags};
use crate::cluster::context::ClusterContext;
use crate::env::Env;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::json;
use crate::next_command::quoted;
use crate::printer::Printer;
use crate::settings::Settings;
use crate::yaml;

pub(crate) fn run(
    arguments: &AuditArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    if !is_audit_id(&arguments.id) {
        return Err(Failure::usage(format!(
            "{:?} is not an Audit-ID: it has 1 to 64 printable characters",
            arguments.id
        ))
        .with_hint("kubectl -v=8 shows the header Audit-ID of each answer"));
    }
    let (events, host) = if arguments.file.is_empty() {
        let host = ClusterContext::load(&Settings::host_of(flags, env)?, env)?;
        (source::of_pods(arguments, &host, env)?, Some(host))
    } else {
        (source::of_files(arguments)?, None)
    };
    if events.is_empty() {
        let failure = Failure::new(format!("no audit event of request {}", arguments.id));
        return Err(failure.with_hint(hint(arguments, host.as_ref())));
    }
    match arguments.output {
        None => printer.out(&story::tell(&events)),
        Some(DataFormat::Json) => printer.out(&(json::text(&Value::Array(events), 0) + "\n")),
        Some(DataFormat::Yaml) => printer.out(&yaml::text(&Value::Array(events), 0)),
    }
    Ok(ExitStatus::Success)
}

/// Whether the text is a valid Audit-ID: 1 to 64 printable characters.
fn is_audit_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

fn hint(arguments: &AuditArgs, host: Option<&ClusterContext>) -> String {
    match host {
        Some(_) if arguments.since.is_some() => {
            "leave out --since; or --file=FILE, if a log collector has the events".to_owned()
        }
        Some(host) => format!(
            "pods write events with --audit-log-path=-; see: {} -n {} get deploy mc-sidecar -o \
             jsonpath={{..args}}; or --file=FILE, if a log collector has the events",
            host.kubectl(),
            quoted(arguments.namespace.as_ref()),
        ),
        None => "name the rotated files too: --file is repeatable".to_owned(),
    }
}
