//! Runs each command of the command line.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::time::Instant;

use anyhow::Result;
use rustix::process::{Signal, set_parent_process_death_signal};
use testbed::owner::{self, Owner};
use testbed::plan::Wanted;
use testbed::{Bed, programs, start};

use crate::cli::{Cli, Command};

pub(crate) fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Run { bed, command } => return run_in_bed(&bed.wanted(), &command),
        Command::Up { bed } => up(&bed.wanted())?,
        Command::Down { id } => owner::down(id.as_deref())?,
        Command::Build { everything: true, .. } => programs::build_everything()?,
        Command::Build { versions, everything: false } => {
            versions.iter().try_for_each(|version| programs::build_all(version))?
        }
        Command::Stop { cluster } => Bed::from_env()?.cluster(&cluster)?.stop_apiserver()?,
        Command::Restart { cluster } => Bed::from_env()?.cluster(&cluster)?.restart_apiserver()?,
        Command::Reap { dir } => owner::reap(&dir)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run_in_bed(wanted: &Wanted, command: &[OsString]) -> Result<ExitCode> {
    let ready = prepare(wanted)?;
    let owner = Owner::new()?;
    let begin = Instant::now();
    let result = start::start(&ready, &owner.id, &owner.dir).and_then(|bed| {
        say(&format!("ready ({:.1} s): {}", begin.elapsed().as_secs_f32(), bed.dir.display()));
        bed.command(command)?.status().map_err(|error| anyhow::anyhow!("cannot start {command:?}: {error}"))
    });
    let failed = !result.as_ref().is_ok_and(ExitStatus::success);
    let down = owner.finish(failed);
    let code = exit_code(result?);
    down?;
    Ok(ExitCode::from(code))
}

fn up(wanted: &Wanted) -> Result<()> {
    let ready = prepare(wanted)?;
    let owner = Owner::new()?;
    match start::start(&ready, &owner.id, &owner.dir) {
        Ok(bed) => {
            owner.detach()?;
            print(&bed)
        }
        Err(error) => {
            owner.finish(true)?;
            Err(error)
        }
    }
}

/// If the caller of this process is killed, nothing is left running. A bed that cannot work is not started.
fn prepare(wanted: &Wanted) -> Result<start::Ready> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    start::check(wanted)
}

/// Prints the environment for `eval`, and how a user can enter the network namespace.
fn print(bed: &Bed) -> Result<()> {
    let mut stdout = std::io::stdout();
    for (name, value) in bed.environment() {
        writeln!(stdout, "export {name}='{}'", value.to_string_lossy())?;
    }
    if let Some(netns) = &bed.netns {
        say(&format!("its network: nsenter --net=/run/netns/{netns}"));
    }
    say(&format!("when done: testbed down {}", bed.id));
    Ok(())
}

/// The exit code as in a shell: that of the command, or 128 and the signal that ended it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "testbed: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_of_a_command_is_passed_on() {
        assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
    }
}
