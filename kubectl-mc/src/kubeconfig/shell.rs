//! Implements `kubectl mc shell`: runs a shell or a command whose tools use a cluster. The kubeconfig is in a
//! folder of this run.

mod prompt;

use std::ffi::OsStr;
use std::io;
use std::process::Command;

use super::overlay;
use super::selection::Chosen;
use crate::cache;
use crate::cli::{Flags, ShellArgs};
use crate::env::{self, Env};
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::foreground;
use crate::multi::RunFolder;
use crate::printer::Printer;

pub(crate) fn run(
    arguments: &ShellArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let ShellArgs { clusters, command } = arguments;
    let chosen = Chosen::resolve(clusters, flags, env, printer)?;
    let names = chosen.names();
    let folder = RunFolder::new(&cache::state_folder(env)?);
    let kubeconfig = folder.write("kubeconfig", overlay::text(&chosen)?.as_bytes())?;
    let list = overlay::list(&kubeconfig, &chosen, env)?;
    let (program, mut child) = match command.split_first() {
        Some((program, arguments)) => {
            let mut child = Command::new(program);
            child.args(arguments);
            (program.clone(), child)
        }
        None => {
            if let Some(outer) = env.var(env::IN_SHELL) {
                printer.note_line(&format!("note: this shell is inside the one of {}", outer.display()));
            }
            printer.note_line(&format!("tools of this shell use {}; exit ends it", chosen.describe()));
            let shell =
                env.var(env::SHELL).or_else(|| env.var(env::COMSPEC)).unwrap_or_else(|| OsStr::new(SHELL));
            (shell.to_owned(), prompt::interactive(shell, &chosen.prompt(), &list, &folder, env)?)
        }
    };
    child.env(env::KUBECONFIG, &list).env(env::IN_SHELL, &names);
    let status = foreground::run(child).map_err(|error| {
        let status = match error.kind() {
            io::ErrorKind::NotFound => ExitStatus::Child(127),
            _ => ExitStatus::CannotStart,
        };
        Failure::new(format!("cannot start {}", program.display())).because(&error).with_status(status)
    })?;
    Ok(ExitStatus::of_child(foreground::code(status)))
}

#[cfg(unix)]
const SHELL: &str = "/bin/sh";
#[cfg(not(unix))]
const SHELL: &str = "cmd.exe";
