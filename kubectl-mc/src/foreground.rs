//! Runs a child that has the terminal, and waits for it. Signals are the child's.

#[cfg(unix)]
mod signals;

use std::io;
use std::process::{Command, ExitStatus};

/// Runs the command to its end.
pub(crate) fn run(mut command: Command) -> io::Result<ExitStatus> {
    #[cfg(unix)]
    let signals = signals::Forwarder::prepare()?;
    let mut child = command.spawn()?;
    #[cfg(unix)]
    let _forwarding = signals.forward_to(child.id())?;
    child.wait()
}

/// The exit code, as shells give it: a child that a signal killed has the signal's number and 128.
pub(crate) fn code(status: ExitStatus) -> Option<i32> {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Some(KILLED_BY + signal);
    }
    status.code()
}

#[cfg(unix)]
const KILLED_BY: i32 = 128;
