//! How long a request may take that is not long-running (apiserver:
//! `endpoints/filters/request_deadline.go`): as long as its `?timeout=` says, but no longer than
//! `--request-timeout`. The parameter is the member's as well and is passed on.

use std::time::Duration;

use crate::query::Query;

/// The time that a request with this query has. Zero or less is no wish.
pub fn within(longest: Duration, query: Option<&str>) -> Result<Duration, Error> {
    // An empty value is no wish either (Go: `url.Values.Get`).
    let value = Query::new(query).first("timeout").filter(|value| !value.is_empty());
    let Some(value) = value else { return Ok(longest) };
    match parse(&value).map_err(Error)? {
        Some(wish) => Ok(wish.min(longest)),
        None => Ok(longest),
    }
}

/// A duration as Go writes it: `1h30m`, `1.5s`, `-2ms` (Go: `time.ParseDuration`, with its errors).
/// `None` is one that is not above zero.
pub(crate) fn parse(text: &str) -> Result<Option<Duration>, Fault> {
    let invalid = || Fault::Invalid(text.to_owned());
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
        // "1..2s" has a second number where its unit should be, and "." is none.
        let number: f64 = match number.matches('.').count() {
            0 | 1 if number != "." => number.parse().map_err(|_| invalid())?,
            0 | 1 => return Err(invalid()),
            _ => return Err(Fault::NoUnit(text.to_owned())),
        };
        total += number * nanoseconds(unit, text)?;
        rest = after;
    }
    // What Go's Duration holds: some 292 years.
    if total > i64::MAX as f64 {
        return Err(invalid());
    }
    Ok((!negative && total >= 1.0).then(|| Duration::from_nanos(total as u64)))
}

/// Where the first character stands that is not of the kind.
fn end_of(text: &str, kind: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !kind(letter)).unwrap_or(text.len())
}

fn nanoseconds(unit: &str, text: &str) -> Result<f64, Fault> {
    Ok(match unit {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        "" => return Err(Fault::NoUnit(text.to_owned())),
        unit => return Err(Fault::UnknownUnit(unit.to_owned(), text.to_owned())),
    })
}

/// A timeout that is no duration.
#[derive(Debug, thiserror::Error)]
#[error("invalid timeout specified in the request URL - {0}")]
pub struct Error(Fault);

/// What is wrong with a duration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
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

    const LONGEST: Duration = Duration::from_secs(60);

    fn seconds(query: &str) -> f64 {
        within(LONGEST, Some(query)).unwrap().as_secs_f64()
    }

    #[test]
    fn a_request_has_the_time_it_asks_for() {
        for (query, expected) in [
            ("timeout=5s", 5.0),
            ("limit=3&timeout=1500ms", 1.5),
            ("timeout=0.5m", 30.0),
            ("timeout=.5s", 0.5),
            ("timeout=1.s", 1.0),
            ("timeout=%2B1s500ms", 1.5),
            ("timeout=250us", 0.000_25),
            ("timeout=250%C2%B5s", 0.000_25),
            ("time%6Fut=7s", 7.0),
            ("timeout=7s&timeout=9s", 7.0),
            ("timeout=%zz&timeout=9s", 9.0),
        ] {
            assert_eq!(seconds(query), expected, "{query}");
        }
    }

    #[test]
    fn but_never_more_than_the_longest_and_zero_is_no_wish() {
        for query in [
            "timeout=61s",
            "timeout=1h",
            "timeout=0",
            "timeout=0s",
            "timeout=-3s",
            "timeout=",
            "timeout",
            "timeout=&timeout=7s",
            "timeout=5s;",
            "timeout=%zz",
            "x=1",
        ] {
            assert_eq!(seconds(query), 60.0, "{query}");
        }
        assert_eq!(within(LONGEST, None).unwrap(), LONGEST);
    }

    /// Each as Go's `time.ParseDuration` says it.
    #[test]
    fn what_is_no_duration_is_refused_in_gos_words() {
        for (query, fault) in [
            ("timeout=5", r#"time: missing unit in duration "5""#),
            ("timeout=1s5", r#"time: missing unit in duration "1s5""#),
            ("timeout=bogus", r#"time: invalid duration "bogus""#),
            ("timeout=.s", r#"time: invalid duration ".s""#),
            ("timeout=-", r#"time: invalid duration "-""#),
            ("timeout=+5s", r#"time: invalid duration " 5s""#),
            ("timeout=5d", r#"time: unknown unit "d" in duration "5d""#),
            ("timeout=5s%20", r#"time: unknown unit "s " in duration "5s ""#),
            ("timeout=1e3s", r#"time: unknown unit "e" in duration "1e3s""#),
            ("timeout=9999999h", r#"time: invalid duration "9999999h""#),
        ] {
            let error = within(LONGEST, Some(query)).unwrap_err().to_string();
            assert_eq!(error, format!("invalid timeout specified in the request URL - {fault}"));
        }
    }
}
