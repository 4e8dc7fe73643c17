//! Parses the values of flags of several verbs.

use std::str::FromStr;
use std::time::Duration;

use kubectl_mc_api::go_duration::parse_flag;
use kubectl_mc_api::token_life;

/// Parses a number that is at least one.
pub(super) fn count<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "expected a number of at least 1")
}

/// Refuses a blank selector, which would choose all clusters and may come from an unset variable in
/// a script.
pub(super) fn not_blank(text: &str) -> Result<String, &'static str> {
    match text.trim().is_empty() {
        true => Err("it is empty; --all-clusters chooses all clusters"),
        false => Ok(text.to_owned()),
    }
}

/// Parses a duration greater than zero.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match parse_flag(text)? {
        Duration::ZERO => Err("it must be longer than nothing".to_owned()),
        duration => Ok(duration),
    }
}

/// Parses a token lifetime.
pub(super) fn life(text: &str) -> Result<Duration, String> {
    let life = duration(text)?;
    if life < token_life::SHORTEST { Err("a token lives for 10m at least".to_owned()) } else { Ok(life) }
}

/// Refuses text that cannot be an image; the nodes validate the rest.
pub(super) fn image(text: &str) -> Result<String, &'static str> {
    match text {
        "" => Err("it is empty"),
        _ if text.contains(char::is_whitespace) => Err("it has white space in it"),
        _ => Ok(text.to_owned()),
    }
}

/// Parses the host's URL, the only value in the sidecars' kubeconfig that comes from the user.
pub(super) fn host_server(text: &str) -> Result<String, &'static str> {
    let uri = text.parse::<http::Uri>().ok().filter(|uri| uri.authority().is_some());
    match uri {
        Some(uri) if uri.scheme_str() == Some("https") => Ok(text.trim_end_matches('/').to_owned()),
        _ => Err("expected https://HOST[:PORT]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_lifetime_has_a_minimum() {
        assert_eq!(duration("24h").unwrap(), Duration::from_secs(86_400));
        assert!(duration("0s").is_err() && life("9m").is_err() && life("10m").is_ok());
    }
}
