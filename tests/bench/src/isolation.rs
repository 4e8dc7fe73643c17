//! Measures how two bad members affect the callers of a healthy one: one that swallows every connection, and
//! one that answers one byte a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, ensure};
use harness::black_hole::BlackHole;
use harness::http1::{Connection, Endpoint, member_path};
use harness::own_sidecar::OwnSidecar;
use harness::wait::{SOON, eventually};

use crate::site::Site;
use crate::table::{Goal, Table, median};
use crate::wrk::{self, Load};

/// Alternates between measuring with and without the bad members, so that other load on the machine
/// affects both alike.
pub(crate) fn measure(site: &Site, quick: bool) -> Result<Table> {
    let (rounds, time) = if quick { (1, Duration::from_secs(1)) } else { (ROUNDS, TIME) };
    let hole = BlackHole::start()?;
    site.register_at("hole", hole.address)?;
    let (slow, _) = site.endless_member("endless")?;
    let sidecar = OwnSidecar::start()?;
    let way = site.probe.sidecar.by(&sidecar.sidecar);
    way.warm_up()?;
    let healthy = || wrk::run(&way.url(), &way.headers(), CONNECTIONS, time);

    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let mut refused = 0;
    for _ in 0..rounds {
        alone.push(healthy()?);
        let bad = Bad::begin(site, &sidecar)?;
        beside.push(healthy()?);
        refused += bad.end()?;
    }
    ensure!(refused > 0, "nobody was told that the black hole is unreachable");
    let middle = |loads: &[Load], of: fn(&Load) -> f64| median(loads.iter().map(of));
    let against = |of: fn(&Load) -> f64| {
        median(beside.iter().zip(&alone).map(|(beside, alone)| of(beside) / of(alone)))
    };
    let mut table =
        Table::new(&["requests to the healthy member", "requests/s", "p50 ms", "p99 ms", "p99 of alone"]);
    for (name, loads) in [("alone", &alone), ("beside the bad", &beside)] {
        table.row([
            name.to_owned(),
            format!("{:.0}", middle(loads, |load| load.rate)),
            format!("{:.2}", middle(loads, |load| load.p50)),
            format!("{:.2}", middle(loads, |load| load.p99)),
            match name {
                "alone" => String::new(),
                _ => Goal::AtMost(1.1).ratio(against(|load| load.p99)),
            },
        ]);
    }
    drop((hole, slow));
    Ok(table)
}

/// The callers of the bad members.
struct Bad {
    shared: Arc<Shared>,
    callers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    /// Answers of the slow member that have begun.
    begun: AtomicUsize,
    /// Requests for the black hole that were refused.
    refused: AtomicUsize,
}

impl Bad {
    /// When this returns, the slow member's answers have begun and the black hole is known to be unreachable.
    fn begin(site: &Site, sidecar: &OwnSidecar) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let mut callers = Vec::new();
        for _ in 0..CALLERS {
            for (name, path, ask) in [("hole", "/api", ask_hole as Ask), ("endless", SLOW_PATH, ask_slow)] {
                let request = format!(
                    "GET {} HTTP/1.1\r\nHost: sidecar\r\nAuthorization: Bearer {}\r\n\r\n",
                    member_path(name, path),
                    site.token()?
                );
                let (endpoint, shared) = (sidecar.endpoint(None)?, shared.clone());
                callers.push(thread::spawn(move || call(&endpoint, &request, ask, &shared)));
            }
        }
        eventually("the bad members are under load", SOON, || {
            let begun = shared.begun.load(Ordering::Relaxed);
            let refused = shared.refused.load(Ordering::Relaxed);
            ensure!(
                begun >= CALLERS && refused >= CALLERS,
                "{begun} answers have begun, {refused} were refused"
            );
            Ok(Some(()))
        })?;
        Ok(Self { shared, callers })
    }

    /// Returns how many requests for the black hole were refused.
    fn end(self) -> Result<usize> {
        self.shared.over.store(true, Ordering::Relaxed);
        for caller in self.callers {
            ensure!(caller.join().is_ok(), "a caller panicked");
        }
        Ok(self.shared.refused.load(Ordering::Relaxed))
    }
}

type Ask = fn(&mut Connection, &str, &Shared) -> Result<()>;

/// Sends requests until the end, on a new connection whenever one ends.
fn call(endpoint: &Endpoint, request: &str, ask: Ask, shared: &Shared) {
    while !shared.over.load(Ordering::Relaxed) {
        // The end of a connection to a sidecar with bad members is not measured.
        let _ = endpoint.connect().and_then(|mut connection| ask(&mut connection, request, shared));
    }
}

fn ask_hole(connection: &mut Connection, request: &str, shared: &Shared) -> Result<()> {
    while !shared.over.load(Ordering::Relaxed) {
        connection.send(request.as_bytes())?;
        connection.response()?;
        shared.refused.fetch_add(1, Ordering::Relaxed);
        thread::park_timeout(PAUSE);
    }
    Ok(())
}

fn ask_slow(connection: &mut Connection, request: &str, shared: &Shared) -> Result<()> {
    connection.send(request.as_bytes())?;
    connection.head()?;
    shared.begun.fetch_add(1, Ordering::Relaxed);
    while !shared.over.load(Ordering::Relaxed) {
        connection.exactly(1)?;
    }
    Ok(())
}

/// The number of callers of each bad member. One caller may have three quarters of a member's 100
/// places.
const CALLERS: usize = 64;
/// A refused caller sends its next request after this time.
const PAUSE: Duration = Duration::from_millis(250);
/// The path that the member answers slowly.
const SLOW_PATH: &str = "/api/v1/namespaces/default/configmaps/slow";
/// Connections to the healthy member.
const CONNECTIONS: usize = 4;
const ROUNDS: usize = 7;
const TIME: Duration = Duration::from_secs(4);
