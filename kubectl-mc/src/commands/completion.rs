//! Implements `kubectl mc completion`, which prints the script of a shell or installs the completion for
//! kubectl, and the hidden verb that responds to both.

use std::ffi::OsString;

use clap::Command;
use tokio::time::Instant;

use crate::cli::{CompletionArgs, CompletionCommand, Shell};
use crate::cluster::context::Piped;
use crate::completion::{self, Answer};
use crate::env::Env;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::printer::Printer;

pub(super) fn run(arguments: &CompletionArgs, env: &Env, printer: &Printer) -> Result<ExitStatus, Failure> {
    let shell = match &arguments.command {
        CompletionCommand::Install(arguments) => {
            completion::install(arguments, env, printer)?;
            return Ok(ExitStatus::Success);
        }
        CompletionCommand::Uninstall { dry_run } => {
            completion::uninstall(*dry_run, env, printer)?;
            return Ok(ExitStatus::Success);
        }
        CompletionCommand::Bash => Shell::Bash,
        CompletionCommand::Zsh => Shell::Zsh,
        CompletionCommand::Fish => Shell::Fish,
        CompletionCommand::Powershell => Shell::Powershell,
    };
    printer.out(completion::script(shell));
    Ok(ExitStatus::Success)
}

/// Prints the candidates for the last word; a failure prints none. `parser` has the verbs of the plugin.
pub(super) fn respond(mut words: Vec<OsString>, parser: Command, env: &Env, printer: &Printer) -> ExitStatus {
    words.remove(0);
    let end = Instant::now() + completion::budget(env);
    // A later read of such a pipe would wait forever.
    let Ok(piped) = Piped::take_within(completion::budget(env), &words, env) else {
        printer.out(&Answer::default().text());
        return ExitStatus::Success;
    };
    let (words, env) = match &piped {
        Some(piped) => (piped.words.clone(), &piped.env),
        None => (words, env),
    };
    printer.out(&completion::respond(words, parser, env, end).text());
    ExitStatus::Success
}
