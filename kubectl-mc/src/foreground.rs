//! Runs a child that has the terminal, and waits for it. The child handles the signals.

#[cfg(unix)]
mod signals;

use std::io;
use std::process::{Command, ExitStatus};

/// Runs the command to its end.
pub(crate) fn run(mut command: Command) -> io::Result<ExitStatus> {
    #[cfg(unix)]
    let signals = signals::Forwarder::prepare()?;
    #[cfg(windows)]
    let _ctrl_c = CtrlC::leave_to_child()?;
    let mut child = command.spawn()?;
    #[cfg(unix)]
    let _forwarding = signals.forward_to(child.id())?;
    child.wait()
}

/// The exit code, as in shells: for a child that was killed by a signal, 128 plus the signal's
/// number.
pub(crate) fn code(status: ExitStatus) -> Option<i32> {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Some(KILLED_BY + signal);
    }
    status.code()
}

/// Ctrl-C ends every process of a console on Windows. While this exists, only the child decides what it means.
#[cfg(windows)]
struct CtrlC {
    _runtime: tokio::runtime::Runtime,
    _signal: tokio::signal::windows::CtrlC,
}

#[cfg(windows)]
impl CtrlC {
    fn leave_to_child() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let signal = {
            let _entered = runtime.enter();
            tokio::signal::windows::ctrl_c()?
        };
        Ok(Self { _runtime: runtime, _signal: signal })
    }
}

#[cfg(unix)]
const KILLED_BY: i32 = 128;
