//! Parses durations that are longer than 0.

use std::time::Duration;

use kubectl_mc_api::go_duration;

/// Parses a duration in the format of Kubernetes' flags: `15s`, `1m30s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match go_duration::parse(text) {
        Ok(Some(duration)) => Ok(duration),
        Ok(None) => Err("it is not longer than 0".to_owned()),
        Err(fault) => Err(fault.to_string()),
    }
}
