//! Sends requests as the host's front proxy does: those of all callers over one HTTP/2 connection, with its
//! certificate and the caller in `X-Remote-*` headers.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::http2::Http2;
use harness::own_sidecar::OwnSidecar;

use crate::requests::Round;
use crate::usage::Cpu;
use crate::way::{User, Way};
use crate::wrk::Load;

/// One connection of a front proxy to a sidecar.
pub(crate) struct FrontProxy<'a> {
    own: &'a OwnSidecar,
    path: String,
    headers: Vec<(String, String)>,
}

impl<'a> FrontProxy<'a> {
    /// To the member of a route, as this user.
    pub(crate) fn new(own: &'a OwnSidecar, way: &Way, user: &User) -> Self {
        Self { own, path: way.path_of_url(), headers: user.remote_headers() }
    }

    /// Sends requests for a second, always this many at a time.
    pub(crate) fn round(&self, at_once: usize) -> Result<Round> {
        let endpoint = self.own.endpoint(Some(&harness::front_proxy::certificate()?))?;
        let mut connection = Http2::connect(&endpoint)?;
        let headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let before = Cpu::of(&[self.own.pid()])?;
        let start = Instant::now();
        let mut latencies = Vec::new();
        while start.elapsed() < Duration::from_secs(1) {
            let sent = Instant::now();
            let streams =
                (0..at_once).map(|_| connection.get(&self.path, &headers)).collect::<Result<Vec<_>>>()?;
            for stream in streams {
                let answer = connection.answer(stream)?;
                ensure!(answer.status == Some(200), "{} failed: {answer:?}", self.path);
                latencies.push(sent.elapsed().as_secs_f64() * 1e3);
            }
        }
        let (used, time) = (Cpu::of(&[self.own.pid()])? - before, start.elapsed());
        let requests = latencies.len() as f64;
        let per_request = |seconds: f64| seconds * 1e6 / requests;
        latencies.sort_by(f64::total_cmp);
        Ok(Round {
            load: Load {
                requests,
                rate: requests / time.as_secs_f64(),
                p50: percentile(&latencies, 50),
                p99: percentile(&latencies, 99),
            },
            cpu: Cpu {
                total: per_request(used.total),
                user: per_request(used.user),
                system: per_request(used.system),
            },
        })
    }
}

fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get(sorted.len() * percent / 100).copied().unwrap_or(f64::NAN)
}
