//! Runs wrk, which sends many requests for one URL over persistent connections, from one thread.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// The results of wrk.
#[derive(Debug, PartialEq)]
pub(crate) struct Load {
    pub(crate) requests: f64,
    /// Requests per second.
    pub(crate) rate: f64,
    /// Latencies in milliseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// Runs wrk. All of its requests must succeed.
pub(crate) fn run(
    url: &str,
    headers: &[(String, String)],
    connections: usize,
    time: Duration,
) -> Result<Load> {
    let text = output(url, headers, connections, time)?;
    ensure!(!has_failed(&text), "{url} failed: {text}");
    parse(&text).with_context(|| format!("wrk said something else: {text}"))
}

/// The same; `None` if a request failed or had no answer within two seconds.
pub(crate) fn attempt(
    url: &str,
    headers: &[(String, String)],
    connections: usize,
    time: Duration,
) -> Result<Option<Load>> {
    let text = output(url, headers, connections, time)?;
    if has_failed(&text) {
        return Ok(None);
    }
    let load = parse(&text).with_context(|| format!("wrk said something else: {text}"))?;
    Ok((load.requests > 0.0).then_some(load))
}

fn output(url: &str, headers: &[(String, String)], connections: usize, time: Duration) -> Result<String> {
    let mut command = Command::new("wrk");
    command.args(["-t1", "--latency", &format!("-c{connections}"), &format!("-d{}s", time.as_secs())]);
    for (name, value) in headers {
        command.args(["-H", &format!("{name}: {value}")]);
    }
    let output =
        command.arg(url).output().context("cannot start: wrk (tests/setup.sh --bench installs it)")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "wrk: {text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

fn has_failed(text: &str) -> bool {
    text.contains("Non-2xx") || text.contains("Socket errors")
}

fn parse(text: &str) -> Option<Load> {
    let after = |label: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(label))?;
        line.split_ascii_whitespace().next()
    };
    let requests = text.lines().find_map(|line| line.trim().split_once(" requests in "))?.0;
    Some(Load {
        requests: requests.parse().ok()?,
        rate: after("Requests/sec:")?.parse().ok()?,
        p50: milliseconds(after("50%")?)?,
        p99: milliseconds(after("99%")?)?,
    })
}

fn milliseconds(text: &str) -> Option<f64> {
    let (factor, number) = [(0.001, "us"), (1.0, "ms"), (1000.0, "s")]
        .into_iter()
        .find_map(|(factor, unit)| Some((factor, text.strip_suffix(unit)?)))?;
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
Running 1s test @ https://127.0.0.1
  1 threads and 1 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   812.44us    1.05ms  12.11ms   93.33%
    Req/Sec     1.53k   230.17     1.90k    70.00%
  Latency Distribution
     50%  250.00us
     75%  700.00us
     90%    1.44ms
     99%    1.25s
  1531 requests in 1.00s, 1.01MB read
Requests/sec:   1530.25
Transfer/sec:      1.01MB
";

    #[test]
    fn output_of_wrk_is_parsed() {
        let load = parse(SAID).unwrap();
        assert_eq!(load, Load { requests: 1531.0, rate: 1530.25, p50: 0.25, p99: 1250.0 });
    }

    #[test]
    fn truncated_output_is_not_parsed() {
        assert_eq!(parse(SAID.split("Requests/sec").next().unwrap()), None);
    }
}
