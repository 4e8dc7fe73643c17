//! Parses durations in the format of Go and of Kubernetes' flags: `90s`, `1m30s`, `1.5h`.

use std::time::Duration;

/// Parses the value of a flag: a duration, or a plain number of seconds, which older releases used. Zero is
/// allowed.
pub fn parse_flag(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    match parse(text) {
        Ok(Some(duration)) => Ok(duration),
        Ok(None) if !text.starts_with('-') => Ok(Duration::ZERO),
        Ok(None) | Err(_) => Err(format!("{text:?} is not a duration: write 30s, 2m or 1h30m")),
    }
}

/// Parses a duration in Go's format: `1h30m`, `1.5s`, `-2ms` (Go: `time.ParseDuration`, with its errors).
/// Zero and negative durations are `None`.
pub fn parse(text: &str) -> Result<Option<Duration>, InvalidDuration> {
    let invalid = || InvalidDuration::Invalid(text.to_owned());
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(None);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0_f64;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(end_of(rest, |letter| letter == '.' || letter.is_ascii_digit()));
        let (unit, after) = after.split_at(end_of(after, |letter| letter != '.' && !letter.is_ascii_digit()));
        if number.is_empty() {
            return Err(invalid());
        }
        // Go reports a missing unit for "1..2s", and an invalid duration for ".".
        let number: f64 = match number.matches('.').count() {
            0 | 1 if number != "." => number.parse().map_err(|_| invalid())?,
            0 | 1 => return Err(invalid()),
            _ => return Err(InvalidDuration::NoUnit(text.to_owned())),
        };
        total += number * nanoseconds(unit, text)?;
        rest = after;
    }
    // The maximum of Go's Duration, about 292 years.
    if total > i64::MAX as f64 {
        return Err(invalid());
    }
    Ok((!negative && total >= 1.0).then(|| Duration::from_nanos(total as u64)))
}

/// The position of the first character that `kind` rejects.
fn end_of(text: &str, kind: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !kind(letter)).unwrap_or(text.len())
}

fn nanoseconds(unit: &str, text: &str) -> Result<f64, InvalidDuration> {
    Ok(match unit {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        "" => return Err(InvalidDuration::NoUnit(text.to_owned())),
        unit => return Err(InvalidDuration::UnknownUnit(unit.to_owned(), text.to_owned())),
    })
}

/// Why a duration is invalid, with Go's error texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDuration {
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    #[error("time: missing unit in duration {0:?}")]
    NoUnit(String),
    #[error("time: unknown unit {0:?} in duration {1:?}")]
    UnknownUnit(String, String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_as_in_go() {
        for (text, milliseconds) in [
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("500ms", 500),
            ("2h", 7_200_000),
            ("0.5m", 30_000),
            (".5s", 500),
            ("1.s", 1000),
            ("+1s500ms", 1500),
        ] {
            assert_eq!(parse(text), Ok(Some(Duration::from_millis(milliseconds))), "{text}");
        }
        for (text, microseconds) in [("250us", 250), ("250µs", 250), ("3000ns", 3)] {
            assert_eq!(parse(text), Ok(Some(Duration::from_micros(microseconds))), "{text}");
        }
        for text in ["0", "-0", "0s", "-3s"] {
            assert_eq!(parse(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn parse_errors_match_go() {
        for (text, fault) in [
            ("", r#"time: invalid duration """#),
            ("soon", r#"time: invalid duration "soon""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("1..2s", r#"time: missing unit in duration "1..2s""#),
            ("5d", r#"time: unknown unit "d" in duration "5d""#),
            ("9999999h", r#"time: invalid duration "9999999h""#),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), fault);
        }
    }

    #[test]
    fn flag_takes_a_duration_or_bare_seconds() {
        for (text, seconds) in [("60s", 60), ("1m", 60), ("45", 45), ("0", 0), ("0s", 0)] {
            assert_eq!(parse_flag(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "soon", "-3s", "-3", "3x"] {
            assert!(parse_flag(text).is_err(), "{text}");
        }
    }
}
