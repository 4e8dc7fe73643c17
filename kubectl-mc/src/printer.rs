//! Writes standard output and standard error; no other module does. A closed pipe is no error, so `kubectl mc
//! clusters | head` ends quietly. A full disk is one.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use tokio::sync::watch;

use crate::error::{Explain, Failure};
use crate::server_text::escaped;

/// Standard output and standard error.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    /// Standard output is closed.
    reader_gone: AtomicBool,
    /// The error of standard output, if it is not a closed pipe.
    lost: OnceLock<io::Error>,
    /// What is drawn on the terminal at the moment: it makes way for whatever is written.
    bar: watch::Sender<Option<ProgressBar>>,
    /// What is held back, if it is.
    held: Option<watch::Sender<Held>>,
}

/// Output that is held back until it is known to be wanted.
#[derive(Debug, Default)]
struct Held {
    pieces: Vec<Piece>,
    bytes: usize,
    /// It became too much, so that all is written as it comes.
    is_released: bool,
}

#[derive(Debug)]
enum Piece {
    Out(Vec<u8>),
    Err(Vec<u8>),
}

impl Printer {
    /// Data: the answer to the command.
    pub(crate) fn out(&self, text: &str) {
        self.out_bytes(text.as_bytes());
    }

    /// A printer that holds back what is written, up to a limit.
    pub(crate) fn holding() -> Self {
        Self { held: Some(watch::Sender::default()), ..Self::default() }
    }

    /// Whether all is still held back.
    pub(crate) fn holds_all(&self) -> bool {
        self.held.as_ref().is_some_and(|held| !held.borrow().is_released)
    }

    /// Whether a line of this beginning is held back for standard error.
    pub(crate) fn holds_note(&self, begin: &str) -> bool {
        let begins = |piece: &Piece| matches!(piece, Piece::Err(text) if text.starts_with(begin.as_bytes()));
        self.held.as_ref().is_some_and(|held| held.borrow().pieces.iter().any(begins))
    }

    /// Writes what was held back, and from now on all as it comes.
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

    /// Holds a piece back; gives it back when it is to be written.
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

    /// Data that need not be text.
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

    /// Why some of the answer could not be written, if so it is.
    pub(crate) fn lost(&self) -> Option<Lost> {
        self.lost.get().map(|error| Lost(error.to_string()))
    }

    /// Whether standard output is closed, so that reads may end.
    pub(crate) fn is_reader_gone(&self) -> bool {
        self.reader_gone.load(Ordering::Relaxed)
    }

    /// Remarks of others, that need not be text.
    pub(crate) fn note_bytes(&self, bytes: &[u8]) {
        if self.held.is_some() && self.hold(Piece::Err(bytes.to_owned())).is_none() {
            return;
        }
        self.beside_bar(|| ignore_broken_pipe(io::stderr().lock().write_all(bytes)));
    }

    /// Draws this on the terminal from now on, or nothing.
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

    /// Data of an answer that comes in pieces; breaks when standard output is closed.
    pub(crate) fn stream(&self, bytes: &[u8]) -> ControlFlow<()> {
        self.out_bytes(bytes);
        if self.is_reader_gone() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// One line of data for people, which may hold text of servers.
    pub(crate) fn out_line(&self, line: &str) {
        self.out(&format!("{}\n", escaped(line)));
    }

    /// Text of ours beside the data.
    pub(crate) fn note(&self, text: &str) {
        self.note_bytes(text.as_bytes());
    }

    /// One line beside the data, which may hold text of servers.
    pub(crate) fn note_line(&self, line: &str) {
        self.note(&format!("{}\n", escaped(line)));
    }

    /// `error: …`, then `hint: …` when there is one.
    pub(crate) fn failure(&self, failure: &Failure) {
        self.note_line(&format!("error: {}", failure.to_string().trim()));
        if let Some(hint) = &failure.hint {
            self.note_line(&format!("hint: {}", hint.trim()));
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

/// Lists that people read are smaller. A longer log is written as it comes.
const MOST_HELD: usize = 8 * 1024 * 1024;

/// What was to be written is not, so the command has not done what it was asked to.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the output: {0}")]
pub(crate) struct Lost(String);

impl Explain for Lost {}

/// One line of the log, which may hold text of servers. It has no printer at hand, so it does not wait for the bar.
pub(crate) fn log(line: &str) {
    ignore_broken_pipe(writeln!(io::stderr().lock(), "{}", escaped(line)));
}

fn ignore_broken_pipe(result: io::Result<()>) {
    // Nothing can be told when standard output or standard error cannot be written.
    let _ = result;
}
