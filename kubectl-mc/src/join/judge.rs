//! Evaluates the findings of a preflight.

use super::preflight::Finding;
use crate::confirm::confirm;
use crate::error::{Failure, Hint};
use crate::printer::Printer;

/// Prints the findings; a refusal ends the join, and a warning needs confirmation.
pub(super) fn judge(findings: Vec<Finding>, yes: bool, printer: &Printer) -> Result<(), Failure> {
    let mut warned = false;
    let (mut refused, mut hints) = (Vec::new(), Vec::new());
    for finding in findings {
        match finding {
            Finding::Fine(text) => printer.note_line(&format!("preflight: {text}")),
            Finding::Warning(text) => {
                warned = true;
                printer.note_line(&format!("warning: {text}"));
            }
            Finding::Refused(text, hint) => {
                refused.push(text);
                hints.push(hint);
            }
        }
    }
    if let Some(hint) = hints.into_iter().reduce(Hint::and) {
        return Err(Failure::new(format!("cannot join: {}", refused.join("; "))).with_hint(hint));
    }
    if warned && !yes {
        confirm("Join despite the warnings?", printer)?;
    }
    Ok(())
}
