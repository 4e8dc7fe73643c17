//! Computes the timeout of a request that is not long-running (apiserver:
//! `endpoints/filters/request_deadline.go`): its `?timeout=`, but at most `--request-timeout`. The member
//! also gets the parameter.

use std::time::Duration;

use kubectl_mc_api::go_duration::{self, InvalidDuration};

use crate::head::query::Query;

/// The timeout of a request with this query. Zero or a negative number means that no timeout was requested.
pub fn within(longest: Duration, query: Option<&str>) -> Result<Duration, Error> {
    // An empty value means the same (Go: `url.Values.Get`).
    let value = Query::new(query).first("timeout").filter(|value| !value.is_empty());
    let Some(value) = value else { return Ok(longest) };
    match go_duration::parse(&value).map_err(Error)? {
        Some(wish) => Ok(wish.min(longest)),
        None => Ok(longest),
    }
}

/// The timeout is not a valid duration.
#[derive(Debug, thiserror::Error)]
#[error("invalid timeout specified in the request URL - {0}")]
pub struct Error(InvalidDuration);

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(60);

    fn seconds(query: &str) -> f64 {
        within(LONGEST, Some(query)).unwrap().as_secs_f64()
    }

    #[test]
    fn timeout_parameter_sets_the_deadline() {
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
    fn timeout_is_capped_and_zero_means_the_default() {
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

    /// Each with the error text of Go's `time.ParseDuration`.
    #[test]
    fn invalid_duration_is_refused_with_gos_error_text() {
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
