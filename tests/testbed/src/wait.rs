//! Waits for another program: checks a condition repeatedly, with a deadline.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Long enough for two busy cores. Only a failure takes this long.
pub(crate) const DEADLINE: Duration = Duration::from_secs(300);

/// Calls `ask` until there is an answer. An inner error means "not yet" with its reason; an outer error ends
/// the wait.
pub(crate) fn until<T>(
    what: &str,
    deadline: Duration,
    mut ask: impl FnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let reason = match ask()? {
            Ok(answer) => return Ok(answer),
            Err(reason) => reason,
        };
        if start.elapsed() > deadline {
            bail!("not within {} s: {what}: {reason}", deadline.as_secs());
        }
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "another program's state has no event to wait for")]
fn pause() {
    std::thread::sleep(Duration::from_millis(40));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_is_checked_until_there_is_an_answer() {
        let mut asked = 0;
        let answer = until("an answer", DEADLINE, || {
            asked += 1;
            Ok(if asked < 3 { Err("not yet".to_owned()) } else { Ok(asked) })
        });
        assert_eq!(answer.unwrap(), 3);
    }

    #[test]
    fn deadline_error_names_the_condition_and_the_reason() {
        let error = until::<()>("a pod", Duration::ZERO, || Ok(Err("no node".to_owned()))).unwrap_err();
        assert_eq!(error.to_string(), "not within 0 s: a pod: no node");
    }

    #[test]
    fn outer_error_ends_the_wait() {
        let error = until::<()>("a pod", DEADLINE, || bail!("gone")).unwrap_err();
        assert_eq!(error.to_string(), "gone");
    }
}
