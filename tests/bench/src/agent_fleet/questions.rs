//! Measures a replica without a tunnel that gets one request for each of many members and has to
//! ask the other replicas.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Result, ensure};
use harness::http1::member_path;

use super::balancer::{Carried, bind, carry};
use super::registered::Registered;
use super::replicas::{Replicas, replica};
use crate::site::Site;
use crate::table::{Table, median};
use crate::usage::Cpu;
use crate::way::CONFIG_MAP;

pub(super) fn measure(site: &Site, registered: &Registered, replicas: &Replicas) -> Result<Table> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let guard = runtime.enter();
    let (carried, mut peers) = (Arc::<Carried>::default(), Vec::<SocketAddr>::new());
    for address in &replicas.addresses {
        let listener = bind()?;
        peers.push(listener.local_addr()?);
        runtime.spawn(carry(listener, vec![*address], carried.clone()));
    }
    drop(guard);
    let peers: Vec<_> = peers.iter().map(SocketAddr::to_string).collect();
    let asks = replica(registered, 0, &peers)?;
    let endpoint = asks.endpoint(None)?;
    let members = &registered.names[..registered.names.len().min(MEMBERS)];
    let mut connection = endpoint.connect()?;
    let (before, others, begin, mut times) =
        (Cpu::of(&[asks.pid()])?.total, replicas.state()?.cpu, Instant::now(), Vec::new());
    for member in members {
        let asked = Instant::now();
        let path = member_path(member, CONFIG_MAP);
        let token = site.token()?;
        connection.send(
            format!("GET {path} HTTP/1.1\r\nHost: sidecar\r\nAuthorization: Bearer {token}\r\n\r\n")
                .as_bytes(),
        )?;
        let answer = connection.response()?;
        ensure!(answer.status() == 200, "{member}: {}: {}", answer.status(), answer.text());
        times.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    let (time, count) = (begin.elapsed().as_secs_f64(), members.len() as f64);
    let each = |total: f64| total / count;
    let (connections, bytes) =
        (carried.connections.load(Ordering::Relaxed) as f64, carried.bytes.load(Ordering::Relaxed) as f64);
    let mut table = Table::new(&[
        "members",
        "requests/s",
        "p50 ms",
        "connections to other replicas: per member",
        "per second",
        "KB per member",
        "CPU of the asking replica per member",
        "of the others",
    ]);
    table.row([
        members.len().to_string(),
        format!("{:.0}", count / time),
        format!("{:.2}", median(times)),
        format!("{:.1}", each(connections)),
        format!("{:.0}", connections / time),
        format!("{:.1}", each(bytes) / 1e3),
        format!("{:.2} ms", each((Cpu::of(&[asks.pid()])?.total - before) * 1e3)),
        format!("{:.2} ms", each((replicas.state()?.cpu - others) * 1e3)),
    ]);
    drop(runtime);
    Ok(table)
}

/// Each of them gets one request.
const MEMBERS: usize = 1_000;
