//! A caller that sends one request after the other and measures how long each takes. Attacks on the sidecar
//! must not slow it down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::hostile::Protocol;
use crate::http1::{Connection, Endpoint};
use crate::http2::Http2;

/// The caller, which runs on its own thread.
pub struct GoodCaller {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Measured>>,
}

/// How a caller reaches the server and what it sends with each request.
#[derive(Clone)]
pub struct Caller {
    /// The name in reports of failures.
    pub name: String,
    pub endpoint: Endpoint,
    pub protocol: Protocol,
    /// Header lines, with names in lower case.
    pub lines: Vec<(String, String)>,
}

/// How long the answers took, and which requests failed.
#[derive(Debug)]
pub struct Measured {
    name: String,
    /// Sorted waits, one for each request that succeeded.
    waits: Vec<Duration>,
    failures: Vec<String>,
}

impl GoodCaller {
    /// Sends GETs until the caller is stopped. `target` makes the target from the number of the request.
    pub fn start(caller: Caller, target: impl Fn(u64) -> String + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut measured =
                Measured { name: caller.name.clone(), waits: Vec::new(), failures: Vec::new() };
            let mut line = Line { caller, kept: None };
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                measured.note(&target(number), &mut line);
                number += 1;
                std::thread::park_timeout(PAUSE);
            }
            measured.waits.sort_unstable();
            measured
        });
        Self { over, thread: Some(thread) }
    }

    /// Waits for the end of the current request and returns the measurements.
    pub fn stop(mut self) -> Result<Measured> {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("the caller was stopped before")?;
        thread.join().map_err(|_| anyhow!("the good caller panicked"))
    }
}

impl Drop for GoodCaller {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Caller {
    /// Sends one GET on a new connection, which must be answered within [`MOST`].
    pub fn ask(&self, target: &str) -> Result<()> {
        let mut measured = Measured { name: self.name.clone(), waits: Vec::new(), failures: Vec::new() };
        measured.note(target, &mut Line { caller: self.clone(), kept: None });
        measured.is_well_served(1)
    }
}

impl Measured {
    /// The wait that this share of the requests did not exceed; zero if all of them failed.
    pub fn percentile(&self, share: f64) -> Duration {
        let last = self.waits.len().saturating_sub(1);
        self.waits.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }

    /// Checks that at least this many requests were sent, that every one was answered with 2xx, and
    /// that none waited longer than [`MOST`].
    pub fn is_well_served(&self, at_least: usize) -> Result<()> {
        self.is_served(at_least)?;
        self.is_served_soon()
    }

    /// Checks that at least this many requests were sent, and that every one was answered with 2xx.
    pub fn is_served(&self, at_least: usize) -> Result<()> {
        let Self { name, waits, failures } = self;
        let shown = &failures[..failures.len().min(3)];
        let sent = waits.len() + failures.len();
        ensure!(failures.is_empty(), "{name}: {} of {sent} requests failed, as {shown:#?}", failures.len());
        ensure!(sent >= at_least, "{name}: only {sent} requests were sent");
        Ok(())
    }

    /// Checks that no request waited longer than [`MOST`].
    fn is_served_soon(&self) -> Result<()> {
        self.is_served_within(MOST)
    }

    /// Checks that requests were sent at least at half the pace of this measurement, or at two per
    /// second, and that every one was answered with 2xx.
    pub fn is_served_beside(&self, time: Duration, other: &Self, others_time: Duration) -> Result<()> {
        let seconds = time.as_secs_f64();
        let pace = (other.waits.len() as f64 / others_time.as_secs_f64() / 2.0).min(2.0);
        self.is_served((seconds * pace).max(1.0) as usize)
    }

    /// Checks that no request waited longer than [`MOST`], or twice as long as the longest of this
    /// measurement.
    pub fn is_served_soon_beside(&self, other: &Self) -> Result<()> {
        self.is_served_within(MOST.max(other.percentile(1.0) * 2))
    }

    fn is_served_within(&self, most: Duration) -> Result<()> {
        let (name, longest) = (&self.name, self.percentile(1.0));
        ensure!(longest <= most, "{name}: a request waited {longest:?}, {self}");
        Ok(())
    }

    fn note(&mut self, target: &str, line: &mut Line) {
        let begun = Instant::now();
        match line.ask(target) {
            Ok(()) => self.waits.push(begun.elapsed()),
            Err(error) => self.failures.push(format!("{target} after {:.1?}: {error:#}", begun.elapsed())),
        }
    }
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [median, slow, longest] = [0.5, 0.99, 1.0].map(|share| self.percentile(share));
        let (answered, failed) = (self.waits.len(), self.failures.len());
        write!(f, "{}: {answered} answered, {failed} failed, ", self.name)?;
        write!(f, "median {median:.1?}, 99 % {slow:.1?}, longest {longest:.1?}")
    }
}

/// The connection that the caller keeps between requests.
struct Line {
    caller: Caller,
    kept: Option<Kept>,
}

enum Kept {
    Http1(Connection),
    /// Contains the number of requests so far, because the connection keeps all of its answers.
    Http2(Http2, usize),
}

impl Line {
    /// Sends a GET. The server may close a persistent connection between two requests. In that
    /// case, the request is sent again on a new one, as in Go's client.
    fn ask(&mut self, target: &str) -> Result<()> {
        let begun = Instant::now();
        if let Some(kept) = self.kept.take() {
            match self.exchange(kept, target) {
                Ok(status) => return success(status),
                Err(error) if begun.elapsed() >= PATIENCE => return Err(error),
                Err(_) => {}
            }
        }
        let connection = self.connect()?;
        success(self.exchange(connection, target)?)
    }

    fn connect(&self) -> Result<Kept> {
        let endpoint = &self.caller.endpoint;
        Ok(match self.caller.protocol {
            Protocol::Http1 => {
                let connection = endpoint.connect()?;
                connection.set_patience(PATIENCE)?;
                Kept::Http1(connection)
            }
            Protocol::Http2 => {
                let http2 = Http2::connect(endpoint)?;
                http2.connection().set_patience(PATIENCE)?;
                Kept::Http2(http2, 0)
            }
        })
    }

    fn exchange(&mut self, connection: Kept, target: &str) -> Result<u16> {
        let lines = &self.caller.lines;
        match connection {
            Kept::Http1(mut connection) => {
                let lines: String =
                    lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                connection.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n{lines}\r\n").as_bytes())?;
                let answer = connection.response()?;
                if answer.head.value("connection") != Some("close") {
                    self.kept = Some(Kept::Http1(connection));
                }
                Ok(answer.status())
            }
            Kept::Http2(mut http2, sent) => {
                let lines: Vec<_> =
                    lines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                let stream = http2.get(target, &lines)?;
                let answer = http2.answer(stream)?;
                if let Some(code) = answer.reset {
                    bail!("the stream was reset by {code}");
                }
                if http2.goaway.is_none() && sent < REQUESTS {
                    self.kept = Some(Kept::Http2(http2, sent + 1));
                }
                answer.status.context("an answer without a status")
            }
        }
    }
}

fn success(status: u16) -> Result<()> {
    ensure!((200..300).contains(&status), "answered {status}");
    Ok(())
}

/// The longest wait that is allowed on a busy machine. Without its defenses a sidecar let callers wait 13 s
/// and more.
pub const MOST: Duration = Duration::from_secs(4);

/// An answer that takes longer is a failure.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two requests, so that the caller does not cause a flood.
const PAUSE: Duration = Duration::from_millis(50);
const REQUESTS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(waits: &[u64], failures: &[&str]) -> Measured {
        Measured {
            name: "good".to_owned(),
            waits: waits.iter().map(|&wait| Duration::from_millis(wait)).collect(),
            failures: failures.iter().map(|&failure| failure.to_owned()).collect(),
        }
    }

    #[test]
    fn percentile_is_the_wait_of_that_share() {
        let measured = measured(&[1, 2, 3, 4, 100], &[]);
        assert_eq!(measured.percentile(0.5), Duration::from_millis(3));
        assert_eq!(measured.percentile(1.0), Duration::from_millis(100));
        assert_eq!(self::measured(&[], &[]).percentile(0.5), Duration::ZERO);
    }

    #[test]
    fn failure_or_long_wait_or_few_requests_are_errors() {
        assert!(measured(&[1, 2], &[]).is_well_served(2).is_ok());
        assert!(measured(&[1, 2], &[]).is_well_served(3).is_err());
        assert!(measured(&[1, 4001], &[]).is_well_served(1).is_err());
        assert!(measured(&[1, 2], &["503"]).is_well_served(1).is_err());
    }

    #[test]
    fn busy_machine_does_not_fail_the_attacked_caller() {
        let second = Duration::from_secs(1);
        let busy = measured(&[5_000, 5_000], &[]);
        let attacked = measured(&[9_000], &[]);
        assert!(attacked.is_served_beside(second, &busy, second).is_ok());
        assert!(attacked.is_served_beside(second * 4, &busy, second * 2).is_err());
        assert!(measured(&[], &["503"]).is_served_beside(second, &busy, second).is_err());
        assert!(attacked.is_served_soon_beside(&busy).is_ok());
        assert!(attacked.is_served_soon_beside(&measured(&[1_000], &[])).is_err());
    }
}
