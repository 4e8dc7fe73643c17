//! Durations as Kubernetes' flags take them: `90s`, `1m30s`, or a plain number of seconds; 0 is
//! without end.

use std::time::Duration;

/// Reads a duration.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let wrong = || format!("{text:?} is no duration: write 30s, 2m or 1h30m");
    let span: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(span).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_kubernetes() {
        for (text, milliseconds) in
            [("30s", 30_000), ("1m30s", 90_000), ("500ms", 500), ("2h", 7_200_000), ("45", 45_000), ("0", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "soon", "-3s", "3x"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
