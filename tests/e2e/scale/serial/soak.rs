//! Many callers send many requests. Each request arrives as its caller, never as another caller or
//! as the sidecar itself, while members fail and headers are hostile. Tunnels neither lose, repeat
//! nor move bytes, and good callers are served among hostile ones. `make soak` runs the same for
//! longer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Result, ensure};
use harness::noise::MEBIBYTE;
use harness::own_sidecar::OwnSidecar;
use harness::usage;

mod callers;
mod endurance;
mod hostile;
mod member;
mod nasty;
mod over_http1;
mod over_http2;
mod tunnels;

use crate::number;
use callers::{Callers, Way};
use member::Members;

#[test]
fn every_request_arrives_as_its_caller_despite_failures() -> Result<()> {
    let wanted = number("SOAK_REQUESTS", 20_000);
    let callers = Callers::welcome("e2e-soak")?;
    let (wrong, wrongs) = mpsc::channel();
    let members = Members::start("e2e-soak", callers.clone(), &wrong)?;
    let own = OwnSidecar::start()?;
    let (tally, begin) = (Tally::of(wanted, wrong), Instant::now());
    std::thread::scope(|scope| {
        for seed in 0..CLIENTS {
            let (tally, callers, members, own) = (&tally, &callers, &members, &own);
            scope.spawn(move || {
                let way = Way::ALL[seed as usize % Way::ALL.len()];
                let names = members.names();
                let outcome = match way {
                    Way::FrontProxyHttp2 => over_http2::ask(seed, own, callers, &names, tally),
                    _ => over_http1::ask(seed, way, own, callers, &names, tally),
                };
                if let Err(error) = outcome {
                    tally.wrong(format!("{way:?}: {error:#}"));
                }
            });
        }
    });
    let arrived = members.arrived();
    let cpu = usage::cpu(own.pid())?;
    say(&format!(
        "{wanted} requests in {:?}, {cpu:?} of the sidecar's: {tally:?}, {arrived} arrived",
        begin.elapsed()
    ));
    let wrong: Vec<String> = wrongs.try_iter().collect();
    ensure!(wrong.is_empty(), "{} went wrong, the first: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
    // The test is valid only if most requests arrived and some failed.
    let (honest, answered, failed) = (
        tally.honest.load(Ordering::SeqCst),
        tally.answered.load(Ordering::SeqCst),
        tally.failed.load(Ordering::SeqCst),
    );
    ensure!(answered * 10 >= honest * 9, "{answered} of {honest} were answered");
    ensure!(failed * 50 >= wanted && arrived * 10 >= wanted * 7, "{failed} failed, {arrived} arrived");
    Ok(())
}

#[test]
fn every_tunnel_carries_exactly_the_sent_bytes() -> Result<()> {
    let wanted = number("SOAK_TUNNEL_MIB", 1024) * MEBIBYTE as u64;
    let begin = Instant::now();
    let carried = tunnels::carry("e2e-soak-tunnel", wanted)?;
    say(&format!("{carried:?} in {:?}", begin.elapsed()));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "what it came to is of interest, whether it passes or not")]
pub(crate) fn say(what: &str) {
    println!("{what}");
}

/// The outcomes of the requests.
#[derive(Debug)]
struct Tally {
    left: AtomicU64,
    /// Requests without any fault, also without one at the member.
    honest: AtomicU64,
    /// Honest requests with the expected answer.
    answered: AtomicU64,
    /// Requests without an answer, or with an error.
    failed: AtomicU64,
    /// Descriptions of unexpected outcomes.
    wrong: mpsc::Sender<String>,
}

impl Tally {
    fn of(wanted: u64, wrong: mpsc::Sender<String>) -> Self {
        let [honest, answered, failed] = [(); 3].map(|()| AtomicU64::new(0));
        Self { left: AtomicU64::new(wanted), honest, answered, failed, wrong }
    }

    /// The number of the next request, or `None` after the last one.
    fn next(&self) -> Option<u64> {
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).ok()
    }

    /// Counts an answer. `honest` requests must succeed.
    fn answer(&self, tag: &str, honest: bool, status: Option<u16>, body: &[u8]) {
        if honest {
            self.honest.fetch_add(1, Ordering::SeqCst);
        }
        match status {
            Some(200..=299) if !body.starts_with(tag.as_bytes()) => {
                self.wrong(format!("{tag} was answered by {:.80}", String::from_utf8_lossy(body)));
            }
            Some(200..=299) if honest => drop(self.answered.fetch_add(1, Ordering::SeqCst)),
            Some(200..=399) => {}
            _ => drop(self.failed.fetch_add(1, Ordering::SeqCst)),
        }
    }

    fn wrong(&self, what: String) {
        // After a failed test the receiver is gone.
        let _ = self.wrong.send(what);
    }
}

/// The number of concurrent connections, of all kinds of login.
const CLIENTS: u64 = 16;
