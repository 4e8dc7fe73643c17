//! The only place that writes. A reader that has gone away (a broken pipe) is no error:
//! `kubectl mc clusters | head` ends quietly.

use std::io::{self, Write};

use crate::error::Failure;

/// Standard output and standard error.
pub(crate) struct Printer;

impl Printer {
    /// Data: the answer to the command.
    pub(crate) fn out(&self, text: &str) {
        ignore_broken_pipe(io::stdout().lock().write_all(text.as_bytes()));
    }

    /// Data that need not be text.
    pub(crate) fn out_bytes(&self, bytes: &[u8]) {
        ignore_broken_pipe(io::stdout().lock().write_all(bytes));
    }

    /// Remarks of others, that need not be text.
    pub(crate) fn note_bytes(&self, bytes: &[u8]) {
        ignore_broken_pipe(io::stderr().lock().write_all(bytes));
    }

    /// Remarks beside the data.
    pub(crate) fn note(&self, text: &str) {
        ignore_broken_pipe(io::stderr().lock().write_all(text.as_bytes()));
    }

    /// `error: …`, then `hint: …` when there is one.
    pub(crate) fn failure(&self, failure: &Failure) {
        let mut text = format!("error: {}\n", printable(&failure.to_string()));
        if let Some(hint) = &failure.hint {
            text.push_str(&format!("hint: {}\n", printable(hint)));
        }
        self.note(&text);
    }
}

/// Text from a server must not move the cursor or recolour the terminal, and stays on its line.
pub(crate) fn printable(text: &str) -> String {
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn ignore_broken_pipe(result: io::Result<()>) {
    // Nothing can be told when standard output or standard error cannot be written.
    let _ = result;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_81_a_servers_text_cannot_steer_the_terminal() {
        assert_eq!(printable(" no\x1b[2Jway\nhome \n"), "no [2Jway home");
    }
}
