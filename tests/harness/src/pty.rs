//! Runs a program on a pseudoterminal that can be resized, and keeps the screen that a user would see.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{InputModes, LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::tool::{Tool, contains};

/// A program and its terminal.
pub struct Terminal {
    child: Child,
    controller: File,
    output: Receiver<Vec<u8>>,
    seen: Vec<u8>,
    screen: vt100::Parser,
}

impl Terminal {
    pub fn start<S: AsRef<OsStr>>(tool: &Tool, arguments: &[S], rows: u16, columns: u16) -> Result<Self> {
        let mut command = tool.command(arguments);
        command.current_dir(tool.home());
        Self::of(&command, rows, columns)
    }

    /// The same for any program, with only the command's own environment; `TERM` is xterm by
    /// default.
    pub fn of(wanted: &Command, rows: u16, columns: u16) -> Result<Self> {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&controller)?;
        unlockpt(&controller)?;
        tcsetwinsize(&controller, size(rows, columns))?;
        let name = ptsname(&controller, Vec::new())?;
        let terminal =
            rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;

        // setsid(1) makes it the controlling terminal: otherwise a new size raises no SIGWINCH.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(wanted.get_program()).args(wanted.get_args());
        command.env_clear().current_dir(wanted.get_current_dir().unwrap_or_else(|| Path::new("/")));
        command.env("TERM", "xterm");
        command.envs(wanted.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let side = |terminal: &OwnedFd| anyhow::Ok(Stdio::from(terminal.try_clone()?));
        command.stdin(side(&terminal)?).stdout(side(&terminal)?).stderr(side(&terminal)?);
        let child = command.spawn().context("cannot start setsid(1)")?;

        let controller = File::from(controller);
        let mut reader = controller.try_clone()?;
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end of a terminal is an error (EIO), which counts as end of file.
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        let screen = vt100::Parser::new(cells(rows), cells(columns), 0);
        Ok(Self { child, controller, output, seen: Vec::new(), screen })
    }

    pub fn resize(&mut self, rows: u16, columns: u16) -> Result<()> {
        self.screen.screen_mut().set_size(cells(rows), cells(columns));
        Ok(tcsetwinsize(&self.controller, size(rows, columns))?)
    }

    pub fn type_in(&mut self, text: &str) -> Result<()> {
        Ok(self.controller.write_all(text.as_bytes())?)
    }

    /// Waits until the program has written this.
    pub fn wait_for(&mut self, text: &str, deadline: Duration) -> Result<()> {
        self.wait_until(text, deadline, |terminal| contains(&terminal.seen, text))
    }

    /// Waits until the screen is as wanted.
    pub fn wait_until(
        &mut self,
        what: &str,
        deadline: Duration,
        enough: impl Fn(&Self) -> bool,
    ) -> Result<()> {
        let begin = Instant::now();
        while !enough(self) {
            match self.output.recv_timeout(deadline.saturating_sub(begin.elapsed())) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout) => bail!("not shown in time: {what:?}: {}", self.screen()),
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("it ended before it showed {what:?}: {}", self.screen())
                }
            }
        }
        Ok(())
    }

    /// Whether the terminal echoes input and passes it on line by line, as a shell expects it.
    pub fn is_restored(&self) -> Result<bool> {
        let modes = tcgetattr(&self.controller)?;
        let line_ends = modes.input_modes.contains(InputModes::ICRNL);
        Ok(line_ends && modes.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG))
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let id = Pid::from_raw(i32::try_from(self.child.id())?).context("a process id")?;
        Ok(kill_process(id, signal)?)
    }

    /// Waits for its end, and returns its exit code and the screen.
    pub fn end(mut self, deadline: Duration) -> Result<(i32, String)> {
        self.wait_for_end(deadline)
    }

    /// The same, for callers that look at the terminal afterwards.
    pub fn wait_for_end(&mut self, deadline: Duration) -> Result<(i32, String)> {
        let begin = Instant::now();
        loop {
            match self.output.recv_timeout(deadline.saturating_sub(begin.elapsed())) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => bail!("it does not end: {}", self.screen()),
            }
        }
        Ok((self.child.wait()?.code().unwrap_or(-1), self.screen()))
    }

    /// Waits for its end and returns its exit code.
    pub fn finish(self, deadline: Duration) -> Result<i32> {
        Ok(self.end(deadline)?.0)
    }

    /// The screen as a user sees it, without the empty lines at the end.
    pub fn screen(&self) -> String {
        let lines = self.screen.screen().rows(0, u16::MAX);
        let text: String = lines.map(|line| format!("{}\n", line.trim_end())).collect();
        format!("{}\n", text.trim_end())
    }

    /// The row and the column of the cursor.
    pub fn cursor(&self) -> (u16, u16) {
        self.screen.screen().cursor_position()
    }

    fn take(&mut self, bytes: &[u8]) {
        self.screen.process(bytes);
        self.seen.extend_from_slice(bytes);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// A screen has at least one row and column.
fn cells(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap_or(NonZero::<u16>::MIN)
}
