//! Reports progress on stderr: one line for each step, with its duration.

use std::fmt::Display;
use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result};

/// Performs one step and reports it; an error names the step.
pub(crate) fn step<T>(name: impl Display, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let result = work().with_context(|| name.to_string())?;
    say(format_args!("{name} ({:.1} s)", start.elapsed().as_secs_f32()));
    Ok(result)
}

/// Writes one line to stderr, and ignores an error.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "testbed: {line}");
}
