//! Runs a command on one cluster by direct requests, which saves the start of kubectl. The output
//! is buffered until every request has succeeded, or until the answer to `auth can-i` is no. After
//! any other result, kubectl runs the command and prints the error.

use std::io::{self, IsTerminal};

use super::Run;
use crate::argv::Scanned;
use crate::cluster::client::{self, ClientError};
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::hop::{Asked, Hop, Refusal};
use crate::cluster::reach::{HostReach, Reach};
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::kubectl::preflight;
use crate::log::{Log, without_credential};
use crate::multi::ClusterProgress;
use crate::multi::direct::{MemberFailure, Merge, PlainText, Plan, TakeOver, Task};
use crate::printer::Printer;
use crate::server_text::ServerText;

/// Runs the plan on a cluster through `reach`; returns `None` if kubectl must take over.
pub(super) fn run(
    plan: &Plan,
    take_over: TakeOver,
    command: &Run<'_>,
    cluster: &ClusterId,
    reach: Result<Reach, ClientError>,
) -> Result<Option<ExitStatus>, Failure> {
    let Run { scanned, settings, env, printer, .. } = *command;
    let reach = match reach {
        Ok(reach) => reach,
        Err(error) if take_over == TakeOver::Never => return Err(error.into()),
        Err(error) => {
            // kubectl prints the same error, without a name.
            explain_on_terminal(printer, || Some(format!("{cluster} through the host: {}", error.reason())));
            return Ok(None);
        }
    };
    let held = (take_over == TakeOver::BeforeOutput).then(Printer::holding);
    let printer = held.as_ref().unwrap_or(printer);
    let task = Task {
        reach: &reach,
        scanned,
        env,
        printer,
        clusters: vec![cluster.clone()],
        not_ready: Vec::new(),
        growth: None,
        color: settings.fleet.color,
        at_once: None,
        timeout: settings.fleet.timeout.filter(|timeout| !timeout.is_zero()),
        progress: ClusterProgress::default(),
        merge: Merge::Plain,
    };
    Log::new(env).decision("Run command", &[("by", &"direct requests")]);
    let mut text = PlainText::new(printer);
    let results = client::runtime()?.block_on(plan.run(&task, &mut text));
    let may_take_over = held.as_ref().is_some_and(Printer::holds_all);
    let failure = results.map(|results| results.into_iter().find_map(|(_, result)| result.err()));
    let is_key = matches!(failure, Ok(Some(MemberFailure::RefusedKey(_))));
    match (failure, &reach.host, cluster.member()) {
        (Ok(Some(MemberFailure::OtherHub(other))), ..) => Err(other.into()),
        // On a terminal, kubectl colors its warnings.
        (Ok(None | Some(MemberFailure::NegativeAnswer)), ..)
            if may_take_over && printer.holds_note("Warning: ") && io::stderr().is_terminal() =>
        {
            Ok(None)
        }
        (Ok(None), ..) => {
            printer.release();
            Ok(Some(ExitStatus::Success))
        }
        (Ok(Some(MemberFailure::Refused(refusal))), Some(host), Some(member)) => {
            let program = if take_over == TakeOver::Never { "kubectl mc" } else { "kubectl" };
            Err(preflight::refused(program, scanned, &host.found, member, &refusal))
        }
        (Ok(Some(MemberFailure::NegativeAnswer)), ..) => {
            printer.release();
            Ok(Some(ExitStatus::Failed))
        }
        (Ok(Some(failure)), host, _) if may_take_over && !is_key => {
            explain_on_terminal(command.printer, || place_of(&failure, scanned, cluster, host.as_ref()));
            Ok(None)
        }
        (Err(_), ..) if may_take_over && !is_key => Ok(None),
        (Ok(Some(MemberFailure::Unreachable(reason))), ..) => {
            printer.release();
            let (verb, context) = (scanned.verb().unwrap_or_default(), cluster.to_string());
            let server = cluster.context().map(|context| without_credential(&context.cluster.server));
            let (verb, server) = (verb.to_string_lossy(), server.unwrap_or_default());
            let text = format!("kubectl mc {verb} on context {context} ({server}): unreachable: {reason}");
            let hint = format!("check the network and the server of context {context}");
            Err(Failure::new(text).with_hint(hint))
        }
        (Ok(Some(failure)), ..) => {
            printer.release();
            text.end(&failure);
            Ok(Some(ExitStatus::Failed))
        }
        (Err(error), ..) => Err(error),
    }
}

/// Adds a line before the error that kubectl prints, but only on a terminal: redirected output must
/// be identical to kubectl's.
fn explain_on_terminal(printer: &Printer, line: impl FnOnce() -> Option<String>) {
    if io::stderr().is_terminal()
        && let Some(line) = line()
    {
        printer.note_line(&line);
    }
}

/// Names the cluster and the hop of a failure that kubectl prints without them, and the next step.
fn place_of(
    failure: &MemberFailure,
    scanned: &Scanned,
    cluster: &ClusterId,
    host: Option<&HostReach>,
) -> Option<String> {
    let server = cluster.context().map(|context| without_credential(&context.cluster.server));
    let at = server.map(|server| format!("context {cluster} ({server})"));
    match (failure, cluster.member(), host) {
        (MemberFailure::Server { code: FORBIDDEN, .. }, Some(member), Some(host)) => {
            let refusal = Refusal { hop: Hop::Member, message: ServerText::default() };
            let hint = refusal.hint(&host.found, Some(member), &Asked::of(scanned));
            Some(format!("{cluster}: the member refused it, and not the host; {hint}"))
        }
        (MemberFailure::Server { code, .. }, Some(_), Some(host)) if *code != NOT_FOUND => {
            Some(format!("{cluster}: the member answered this, through {}", host.found.describe()))
        }
        (MemberFailure::Server { code, .. }, ..) if *code != NOT_FOUND => {
            Some(format!("{}: its server answered this", at?))
        }
        (MemberFailure::Unreachable(_), ..) => Some(format!("{}: check the network and the server", at?)),
        _ => None,
    }
}

const FORBIDDEN: u16 = 403;
/// kubectl's error names the missing object.
const NOT_FOUND: u16 = 404;
