//! Waits for a condition. The interval only determines how often the condition is checked: a test
//! always waits for an event, and fails after a deadline.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Calls `ask` until there is an answer, at most until the deadline. An error counts as no answer, and is
/// reported at the deadline.
pub fn eventually<T>(what: &str, deadline: Duration, ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    checked_every(PACE, what, deadline, ask)
}

/// The same with another interval, for durations that are measured.
pub fn checked_every<T>(
    pace: Duration,
    what: &str,
    deadline: Duration,
    mut ask: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let begin = Instant::now();
    loop {
        let answer = ask();
        if let Ok(Some(found)) = answer {
            return Ok(found);
        }
        if begin.elapsed() > deadline {
            answer.with_context(|| format!("not within {deadline:?}: {what}"))?;
            bail!("not within {deadline:?}: {what}");
        }
        std::thread::park_timeout(pace);
    }
}

/// Timeout on a busy machine for anything that should take moments.
pub const SOON: Duration = Duration::from_secs(30);

/// The interval of most checks. Each check takes time away from the checked program.
pub(crate) const PACE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_is_checked_until_there_is_an_answer() {
        let mut asked = 0;
        let answer = eventually("three", SOON, || {
            asked += 1;
            Ok((asked == 3).then_some(asked))
        });
        assert_eq!(answer.unwrap(), 3);
    }

    #[test]
    fn last_error_is_reported_at_the_deadline() {
        let error = eventually::<()>("the door opens", Duration::ZERO, || bail!("it is locked")).unwrap_err();
        assert_eq!(format!("{error:#}"), "not within 0ns: the door opens: it is locked");
    }
}
