//! Draws the menu below the cursor of a terminal and reads keys, until clusters are picked. The lines are
//! always cleared at the end, even after a signal.

use std::io::{self, Read, Stdin, Write};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::tcgetwinsize;

use super::super::selected_clusters::SelectedCluster;
use super::Picked;
use super::key::{ESC, keys};
use super::menu::{Menu, Step};
use super::raw_mode::RawMode;
use crate::multi::signals::Signals;

/// Shows the menu on standard error. Fails before any output if the terminal does not support it.
pub(super) fn pick(all: &[SelectedCluster]) -> io::Result<Picked> {
    let input = io::stdin();
    // Values drop in reverse order, so signals have their default action only after the terminal is restored.
    let mut signals = Signals::receive()?;
    let _raw = RawMode::enter(&input)?;
    let mut screen = Screen::default();
    let mut menu = Menu::new(all);
    let mut typed = Vec::new();
    loop {
        let (height, width) = size();
        screen.draw(&menu.lines(height, width))?;
        match wait(&input, &signals, !typed.is_empty())? {
            Event::End => return Ok(Picked::Cancelled),
            Event::Resize => forget(&mut signals.resize)?,
            // The sequence did not continue: it was the key Esc, or nothing.
            Event::Silence if typed.as_slice() == [ESC] => return Ok(Picked::Cancelled),
            Event::Silence => typed.clear(),
            Event::Typed => {
                // Reads one byte at a time: the rest of the input belongs to the following command.
                let mut byte = [0];
                if rustix::io::read(&input, &mut byte)? == 0 {
                    return Ok(Picked::Cancelled);
                }
                typed.extend_from_slice(&byte);
                let (pressed, length) = keys(&typed);
                typed.drain(..length);
                for key in pressed {
                    match menu.press(key) {
                        Step::Continue => {}
                        Step::Accept(choice) => return Ok(Picked::Choice(choice)),
                        Step::Cancel => return Ok(Picked::Cancelled),
                    }
                }
            }
        }
    }
}

enum Event {
    /// A signal that ends the program.
    End,
    Resize,
    Typed,
    /// An incomplete sequence does not continue.
    Silence,
}

fn wait(input: &Stdin, signals: &Signals, is_in_sequence: bool) -> io::Result<Event> {
    let timeout = is_in_sequence.then_some(SEQUENCE);
    let mut polled = [
        PollFd::new(&signals.end, PollFlags::IN),
        PollFd::new(&signals.resize, PollFlags::IN),
        PollFd::new(input, PollFlags::IN),
    ];
    loop {
        match poll(&mut polled, timeout.as_ref()) {
            // The signal has written its byte to the socket.
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => break,
        }
    }
    let is_ready = |at: usize| !polled[at].revents().is_empty();
    Ok(match () {
        () if is_ready(0) => Event::End,
        () if is_ready(1) => Event::Resize,
        () if is_ready(2) => Event::Typed,
        () => Event::Silence,
    })
}

/// Reads and drops the bytes of signals.
fn forget(signals: &mut UnixStream) -> io::Result<()> {
    signals.read(&mut [0; 64]).map(drop)
}

/// The height and the width of the terminal.
fn size() -> (usize, usize) {
    match tcgetwinsize(io::stderr()) {
        Ok(size) => (size.ws_row.into(), size.ws_col.into()),
        Err(_) => (24, 80),
    }
}

/// The shown lines, which are cleared on drop.
#[derive(Default)]
struct Screen {
    /// The number of lines above the cursor.
    above: usize,
}

impl Screen {
    /// Draws over the previous lines; the cursor ends at the end of the last line.
    fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let text = self.begin() + &lines.join("\r\n");
        self.above = lines.len().saturating_sub(1);
        write(&text)
    }

    /// Moves to the first line, and clears from there.
    fn begin(&self) -> String {
        match self.above {
            0 => "\r\x1b[J".to_owned(),
            above => format!("\r\x1b[{above}A\x1b[J"),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A closed terminal needs no clearing.
        let _ = write(&self.begin());
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut terminal = io::stderr().lock();
    terminal.write_all(text.as_bytes())?;
    terminal.flush()
}

/// The bytes of a key arrive together, even over a slow connection.
const SEQUENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
