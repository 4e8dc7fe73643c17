//! Writes standard output and standard error; no other module does. A closed pipe is not an error, so
//! `kubectl mc clusters | head` ends quietly. A full disk is an error.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use tokio::sync::watch;

use crate::error::Failure;
use crate::server_text::escaped;

/// Standard output and standard error.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    /// Whether standard output is closed.
    reader_gone: AtomicBool,
    /// The error of standard output, if it is not a closed pipe.
    lost: OnceLock<io::Error>,
    /// The current progress display, which is hidden during other output.
    bar: watch::Sender<Option<ProgressBar>>,
    /// The held output, if output is held back.
    held: Option<watch::Sender<Held>>,
}

/// Output that is held back until it is known to be needed.
#[derive(Debug, Default)]
struct Held {
    pieces: Vec<Piece>,
    bytes: usize,
    /// Whether the limit was exceeded, so that output is now written directly.
    is_released: bool,
}

#[derive(Debug)]
enum Piece {
    Out(Vec<u8>),
    Err(Vec<u8>),
}

impl Printer {
    /// Writes data: the result of the command.
    pub(crate) fn out(&self, text: &str) {
        self.out_bytes(text.as_bytes());
    }

    /// A printer that holds back its output, up to a limit.
    pub(crate) fn holding() -> Self {
        Self { held: Some(watch::Sender::default()), ..Self::default() }
    }

    /// Whether all output is still held back.
    pub(crate) fn holds_all(&self) -> bool {
        self.held.as_ref().is_some_and(|held| !held.borrow().is_released)
    }

    /// Whether a line that begins with this text is held back for standard error.
    pub(crate) fn holds_note(&self, begin: &str) -> bool {
        let begins = |piece: &Piece| matches!(piece, Piece::Err(text) if text.starts_with(begin.as_bytes()));
        self.held.as_ref().is_some_and(|held| held.borrow().pieces.iter().any(begins))
    }

    /// Writes the held output, and from now on writes directly.
    pub(crate) fn release(&self) {
        let Some(held) = &self.held else { return };
        let mut pieces = Vec::new();
        held.send_modify(|held| {
            held.is_released = true;
            pieces = std::mem::take(&mut held.pieces);
        });
        for piece in pieces {
            match piece {
                Piece::Out(bytes) => self.out_bytes(&bytes),
                Piece::Err(bytes) => self.note_bytes(&bytes),
            }
        }
    }

    /// Holds a piece back; returns it if it must be written.
    fn hold(&self, piece: Piece) -> Option<Piece> {
        let Some(held) = &self.held else { return Some(piece) };
        if held.borrow().is_released {
            return Some(piece);
        }
        let mut is_full = false;
        held.send_modify(|held| {
            held.bytes += piece.bytes().len();
            held.pieces.push(piece);
            is_full = held.bytes > MOST_HELD;
        });
        if is_full {
            self.release();
        }
        None
    }

    /// Writes data that need not be UTF-8.
    pub(crate) fn out_bytes(&self, bytes: &[u8]) {
        if self.held.is_some() && self.hold(Piece::Out(bytes.to_owned())).is_none() {
            return;
        }
        self.beside_bar(|| {
            let mut out = io::stdout().lock();
            if let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) {
                self.reader_gone.store(true, Ordering::Relaxed);
                if error.kind() != io::ErrorKind::BrokenPipe {
                    let _ = self.lost.set(error);
                }
            }
        });
    }

    /// The error if some output could not be written.
    pub(crate) fn lost(&self) -> Option<Failure> {
        self.lost.get().map(|error| Failure::new(format!("cannot write the output: {error}")))
    }

    /// Whether standard output is closed, so that reads may stop.
    pub(crate) fn is_reader_gone(&self) -> bool {
        self.reader_gone.load(Ordering::Relaxed)
    }

    /// Writes messages of other programs, which need not be UTF-8.
    pub(crate) fn note_bytes(&self, bytes: &[u8]) {
        if self.held.is_some() && self.hold(Piece::Err(bytes.to_owned())).is_none() {
            return;
        }
        self.beside_bar(|| ignore_broken_pipe(io::stderr().lock().write_all(bytes)));
    }

    /// Shows this progress display on the terminal from now on, or none.
    pub(crate) fn draw(&self, bar: Option<ProgressBar>) {
        if let Some(before) = self.bar.send_replace(bar) {
            before.finish_and_clear();
        }
    }

    fn beside_bar(&self, write: impl FnOnce()) {
        let bar = self.bar.borrow().clone();
        match bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Writes a piece of streamed data; breaks when standard output is closed.
    pub(crate) fn stream(&self, bytes: &[u8]) -> ControlFlow<()> {
        self.out_bytes(bytes);
        if self.is_reader_gone() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Writes one line of data, which may contain text from servers.
    pub(crate) fn out_line(&self, line: &str) {
        self.out(&format!("{}\n", escaped(line)));
    }

    /// Writes a message, separate from the data.
    pub(crate) fn note(&self, text: &str) {
        self.note_bytes(text.as_bytes());
    }

    /// Writes one line, separate from the data. It may contain text from servers.
    pub(crate) fn note_line(&self, line: &str) {
        self.note(&format!("{}\n", escaped(line)));
    }

    /// Writes `error: …`, then `hint: …` if there is one.
    pub(crate) fn failure(&self, failure: &Failure) {
        self.note_line(&format!("error: {}", failure.to_string().trim()));
        if let Some(hint) = &failure.hint {
            self.note_line(&format!("hint: {}", hint.to_string().trim()));
        }
    }
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Out(bytes) | Self::Err(bytes) => bytes,
        }
    }
}

/// More than a readable list needs. Longer output is written directly.
const MOST_HELD: usize = 8 * 1024 * 1024;

/// Writes one log line, which may contain text from servers. It has no printer, so it does not hide
/// the progress display.
pub(crate) fn log(line: &str) {
    ignore_broken_pipe(writeln!(io::stderr().lock(), "{}", escaped(line)));
}

fn ignore_broken_pipe(result: io::Result<()>) {
    // Nothing can be reported if standard output or standard error fails.
    let _ = result;
}
