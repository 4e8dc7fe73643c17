//! `kubectl mc`: kubectl for many clusters, through one host cluster.
//!
//! A command goes through these steps, in the order of [`commands`]: scan argv → settings → host →
//! overlay kubeconfig → preflight → rewrite → execve of kubectl.

mod access;
mod apply;
mod argv;
mod audit;
mod authz;
mod cache;
mod child_output;
mod chosen_cluster;
mod cli;
mod cluster;
mod commands;
mod completion;
mod config_file;
mod confirm;
mod doctor;
mod env;
mod error;
mod executable;
mod exit;
mod foreground;
mod glob;
mod hub_api;
mod install;
mod join;
mod json;
mod kubeconfig;
mod kubectl;
#[cfg(test)]
mod layers;
mod listen;
mod log;
mod login;
mod multi;
mod next_command;
mod panics;
mod printer;
mod progress;
mod server_text;
mod settings;
mod suggestion;
mod tabwriter;
mod yaml;

use std::process::ExitCode;

use crate::env::Env;
use crate::exit::ExitStatus;
use crate::printer::Printer;

fn main() -> ExitCode {
    let env = Env::from_process();
    panics::report(&env);
    let printer = Printer::default();
    let arguments = completion::arguments(std::env::args_os());
    let status = commands::run(arguments, &env, &printer).unwrap_or_else(|failure| {
        printer.failure(&failure);
        failure.status
    });
    let Some(lost) = printer.lost() else { return status.end() };
    printer.failure(&lost);
    if status == ExitStatus::Success { ExitStatus::Failed } else { status }.end()
}
