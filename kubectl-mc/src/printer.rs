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
}

impl Printer {
    /// Data: the answer to the command.
    pub(crate) fn out(&self, text: &str) {
        self.out_bytes(text.as_bytes());
    }

    /// Data that need not be text.
    pub(crate) fn out_bytes(&self, bytes: &[u8]) {
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
