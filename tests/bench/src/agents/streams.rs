//! Measures large streams over the three routes: kubectl exec in a pod of a real member, and
//! upgraded connections to a member that only sends and receives, which show the capacity of the
//! routes themselves.

use std::time::Instant;

use anyhow::{Result, ensure};
use harness::bed::{kubectl, member};
use harness::http1::{Connection, member_path};
use harness::own_sidecar::OwnSidecar;

use super::carriers::{Carrier, Carriers, DIRECT, TUNNEL};
use crate::member::{MEBIBYTE, RECEIVES, SENDS};
use crate::site::Site;
use crate::stream::{Kubectl, POD_NAME, SERVE, Stream, megabytes};
use crate::table::{Goal, Table, median};
use crate::usage::Cpu;

/// One stream.
#[derive(Clone, Copy)]
struct Round {
    /// Megabytes per second.
    rate: f64,
    /// CPU time of the sidecar and of the processes that carry its connections, in milliseconds per megabyte.
    cpu: f64,
}

/// The rounds of each route.
type Rounds = [Vec<Round>; 3];

/// Streams by kubectl exec, out of a pod and into it.
pub(super) fn by_kubectl(carriers: &Carriers, site: &Site, quick: bool) -> Result<Table> {
    let mut table = table();
    if member("m1")?.node.is_none() {
        return Ok(table);
    }
    site.scene.pod(POD_NAME, SERVE)?;
    let (home, kubectl) = (tempfile::tempdir()?, kubectl()?);
    for stream in [Stream::ExecOut, Stream::ExecIn] {
        let rounds = by_turns(carriers, quick, |carrier, mebibytes| {
            let kubeconfig = carrier.way.kubeconfig(home.path())?;
            let kubectl = Kubectl {
                program: &kubectl,
                leading: Vec::new(),
                kubeconfig: &kubeconfig,
                home: home.path(),
                namespace: &site.scene.name,
            };
            stream.run(&kubectl, mebibytes)
        })?;
        rows(&mut table, stream.name(), &rounds);
    }
    Ok(table)
}

/// Streams over upgraded connections to this program's own member.
pub(super) fn alone(carriers: &Carriers, sidecar: &OwnSidecar, site: &Site, quick: bool) -> Result<Table> {
    let mut table = table();
    for (name, part) in [("out of the member", SENDS), ("into the member", RECEIVES)] {
        let rounds = by_turns(carriers, quick, |carrier, mebibytes| {
            let mut connection = upgraded(carrier, sidecar, site, &format!("{part}{mebibytes}"))?;
            let piece = vec![0; MEBIBYTE];
            let mut pass = |count: usize| -> Result<()> {
                for _ in 0..count {
                    match part {
                        SENDS => drop(connection.exactly(MEBIBYTE)?),
                        _ => connection.send(&piece)?,
                    }
                }
                Ok(())
            };
            pass(1)?;
            let begin = Instant::now();
            pass(mebibytes - 1)?;
            if part == RECEIVES {
                connection.exactly(1)?;
            }
            Ok(megabytes(mebibytes - 1) / begin.elapsed().as_secs_f64())
        })?;
        rows(&mut table, name, &rounds);
    }
    Ok(table)
}

/// An upgraded connection to the member, which sends or receives as the end of the path says.
pub(super) fn upgraded(
    carrier: &Carrier,
    sidecar: &OwnSidecar,
    site: &Site,
    what: &str,
) -> Result<Connection> {
    let mut connection = sidecar.endpoint(None)?.connect()?;
    let path = member_path(&carrier.cluster, &format!("{EXEC}{what}"));
    connection.send(
        format!(
            "GET {path} HTTP/1.1\r\nHost: sidecar\r\nAuthorization: Bearer {}\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            site.token()?
        )
        .as_bytes(),
    )?;
    let head = connection.head()?;
    ensure!(head.status == 101, "{}: {head:?}", carrier.way.name);
    Ok(connection)
}

fn by_turns(
    carriers: &Carriers,
    quick: bool,
    stream: impl Fn(&Carrier, usize) -> Result<f64>,
) -> Result<Rounds> {
    let (rounds, mebibytes) = if quick { (1, 16) } else { (ROUNDS, MEBIBYTES) };
    let mut results: Rounds = Default::default();
    // The first round is short and not counted: it fills caches.
    for number in 0..=rounds {
        for step in 0..3 {
            let at = (number + step) % 3;
            let carrier = &carriers.ways[at];
            let mebibytes = if number == 0 { 2 } else { mebibytes };
            let pids = [&*carrier.way.pids, &carrier.pids].concat();
            let before = Cpu::of(&pids)?;
            let rate = stream(carrier, mebibytes)?;
            let used = Cpu::of(&pids)? - before;
            if number > 0 {
                results[at].push(Round { rate, cpu: used.total * 1e3 / megabytes(mebibytes) });
            }
        }
    }
    Ok(results)
}

fn table() -> Table {
    Table::new(&["stream", "way", "MB/s", "of direct", "of konnectivity", "CPU ms/MB"])
}

fn rows(table: &mut Table, stream: &str, rounds: &Rounds) {
    let [direct, tunnel, konnectivity] = rounds;
    let against = |rounds: &[Round], other: &[Round]| {
        median(rounds.iter().zip(other).map(|(round, other)| round.rate / other.rate))
    };
    for (name, own) in [(DIRECT, direct), (TUNNEL, tunnel), (super::carriers::KONNECTIVITY, konnectivity)] {
        let (of_direct, of_konnectivity) = (against(own, direct), against(own, konnectivity));
        table.row([
            stream.to_owned(),
            name.to_owned(),
            format!("{:.0}", median(own.iter().map(|round| round.rate))),
            match name {
                DIRECT => "1".to_owned(),
                TUNNEL => Goal::AtLeast(0.7).ratio(of_direct),
                _ => format!("{of_direct:.2}"),
            },
            match name {
                DIRECT => format!("{of_konnectivity:.2}"),
                TUNNEL => Goal::AtLeast(3.0).ratio(of_konnectivity),
                _ => "1".to_owned(),
            },
            format!("{:.2}", median(own.iter().map(|round| round.cpu))),
        ]);
    }
}

const EXEC: &str = "/api/v1/namespaces/default/pods/main/exec?command=sh&stdin=true";
const ROUNDS: usize = 5;
const MEBIBYTES: usize = 64;
