//! Prompts for confirmation at the terminal before a change that cannot be undone.

use std::io::{BufRead, IsTerminal};

use crate::error::Failure;
use crate::printer::Printer;
use crate::server_text::escaped;

/// Continues only after a yes, with the same prompt as kubectl.
pub(crate) fn confirm(question: &str, printer: &Printer) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        let failure = Failure::new("cannot ask for confirmation: standard input is not a terminal");
        return Err(failure.with_hint("--yes skips the question"));
    }
    printer.note(&format!("{} (y/N): ", escaped(question)));
    let mut answer = String::new();
    // Unreadable input does not confirm.
    let _ = std::io::stdin().lock().read_line(&mut answer);
    if is_yes(&answer) { Ok(()) } else { Err(Failure::new("nothing was changed")) }
}

/// Whether the answer is `y` or `yes`, in upper or lower case.
pub(crate) fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
