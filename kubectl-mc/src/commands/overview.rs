//! Prints the output of `kubectl mc` without arguments.

use crate::cli;
use crate::exit::ExitStatus;
use crate::printer::Printer;

/// The most important commands, and where to find the others.
pub(super) fn print(verbs: impl Iterator<Item = &'static str>, printer: &Printer) -> ExitStatus {
    let names = verbs.collect::<Vec<_>>().join(", ");
    let verbs = cli::wrap(&format!("Commands of the plugin: {names}"));
    printer.out(&format!("{}\n{verbs}\n{}", cli::OVERVIEW, cli::OVERVIEW_END));
    ExitStatus::Success
}
