//! Waiting for something to become so. The pace is only how often is asked: what a test
//! waits for is always an event, with a deadline after which it failed.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Asks until there is an answer, at most until the deadline. An error is not an answer yet,
/// and is told when time is up.
pub fn eventually<T>(
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
        std::thread::park_timeout(PACE);
    }
}

/// How long anything that should take moments may take on a busy machine.
pub const SOON: Duration = Duration::from_secs(30);

const PACE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_again_until_there_is_an_answer() {
        let mut asked = 0;
        let answer = eventually("three", SOON, || {
            asked += 1;
            Ok((asked == 3).then_some(asked))
        });
        assert_eq!(answer.unwrap(), 3);
    }

    #[test]
    fn the_last_error_is_told_when_time_is_up() {
        let error = eventually::<()>("the door opens", Duration::ZERO, || bail!("it is locked")).unwrap_err();
        assert_eq!(format!("{error:#}"), "not within 0ns: the door opens: it is locked");
    }
}
