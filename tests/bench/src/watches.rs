//! Measures many idle watches through one sidecar, as an aggregating host sends them: over few HTTP/2
//! connections. Shows the memory that each watch takes, and how much of it cannot be avoided.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::http1::{Endpoint, member_path};
use harness::http2::Http2;
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::usage;

use crate::print;
use crate::role::{Layer, Process};
use crate::site::Site;
use crate::table::{Goal, Table};
use crate::usage::Cpu;

/// The resources of the sidecar at some moment.
struct Held {
    watches: usize,
    bytes: usize,
    /// Seconds of CPU time since it began.
    cpu: f64,
}

pub(crate) fn measure(site: &Site, files: usize, quick: bool) -> Result<()> {
    let wanted = if quick { 2_500 } else { 10_000 };
    // Each of the two processes has a file for each watch, and a few others.
    let connections = wanted.min(files.saturating_sub(SPARE_FILES)) / STREAMS;
    let watches = connections * STREAMS;
    ensure!(connections >= 2, "a process may open {files} files here, too few for watches");
    let fewer = if watches < wanted {
        format!(" ({watches} and not {wanted}: a process may open {files} files here)")
    } else {
        String::new()
    };
    let (member, address) = site.endless_member("endless")?;
    let sidecar = OwnSidecar::with(&Difference {
        flags: &["--max-watches=0", "--max-member-watches=0"],
        ..Difference::default()
    })?;
    let endpoint = sidecar.endpoint(None)?;
    let held = |watches| {
        let bytes = usage::resident(sidecar.pid())?;
        Ok::<_, anyhow::Error>(Held { watches, bytes, cpu: Cpu::of(&[sidecar.pid()])?.total })
    };
    // The first connection also allocates what is shared by all.
    open(&endpoint, site.token()?, 1)?;
    let none = held(0)?;
    let few = 1.max(connections / 10);
    (0..few).try_for_each(|_| open(&endpoint, site.token()?, STREAMS))?;
    let some = held(few * STREAMS)?;
    (few..connections).try_for_each(|_| open(&endpoint, site.token()?, STREAMS))?;
    let all = held(watches)?;
    let idle = idle_cpu(sidecar.pid(), if quick { 5 } else { IDLE_SECONDS })?;

    let mut table = Table::new(&["watches", "resident memory", "a watch", "CPU to open one"]);
    for moment in [&some, &all] {
        let number = moment.watches as f64;
        table.row([
            moment.watches.to_string(),
            format!("{:.1} MB", moment.bytes as f64 / 1e6),
            kilobytes((moment.bytes - none.bytes) as f64 / number),
            format!("{:.2} ms", (moment.cpu - none.cpu) * 1e3 / number),
        ]);
    }
    print(&format!("Idle watches through one sidecar{fewer}"), &table)?;

    // The slope leaves out memory that does not grow with the number.
    let each = (all.bytes - some.bytes) as f64 / (all.watches - some.watches) as f64;
    let bare = |by| Process::bare(address, &site.certificates.ca, (all.watches / 10).max(STREAMS), by);
    let (tls, http) = (bare(Layer::Tls)?, bare(Layer::Http)?);
    let mut table = Table::new(&["of each watch", "takes", "goal"]);
    table.row(["rustls and the socket's task".into(), kilobytes(tls), String::new()]);
    table.row(["hyper's HTTP/1.1 to the member".into(), kilobytes(http - tls), String::new()]);
    table.row(["the HTTP/2 stream and the sidecar".into(), kilobytes(each - http), String::new()]);
    let beyond = (each - tls) / 1e3;
    table.row(["all beyond TLS".into(), kilobytes(each - tls), Goal::AtMost(20.0).verdict(beyond)]);
    table.row(["all".into(), kilobytes(each), String::new()]);
    print("Of what a watch's memory is", &table)?;

    let mut table = Table::new(&["idle watches", "CPU", "of one core"]);
    let share = format!("{:.1} %", idle * 100.0);
    table.row([all.watches.to_string(), format!("{:.1} ms/s", idle * 1e3), share]);
    drop(member);
    print("What idle watches cost", &table)
}

/// Opens watches over one connection, which stays open until the sidecar ends.
fn open(endpoint: &Endpoint, token: &str, streams: usize) -> Result<()> {
    let (endpoint, token) = (endpoint.clone(), format!("Bearer {token}"));
    let (opened, is_open) = mpsc::channel();
    thread::spawn(move || {
        let connection = watch(&endpoint, &token, streams);
        let (connection, told) = match connection {
            Ok(connection) => (Some(connection), Ok(())),
            Err(error) => (None, Err(error)),
        };
        // If the receiver is gone, the measurement has failed already.
        let _ = opened.send(told);
        // Pings have to be answered.
        if let Some(mut connection) = connection {
            while let Ok(Some(_)) = connection.frame() {}
        }
    });
    is_open.recv().context("a client ended")?
}

fn watch(endpoint: &Endpoint, token: &str, streams: usize) -> Result<Http2> {
    let mut connection = Http2::connect(endpoint)?;
    connection.connection().set_patience(PATIENCE)?;
    let path = member_path("endless", "/api/v1/configmaps?watch=1");
    let asked = (0..streams).map(|_| connection.get(&path, &[("authorization", token)]));
    for stream in asked.collect::<Result<Vec<_>>>()? {
        let began = connection.until(stream, |stream| !stream.body.is_empty() || stream.ended)?;
        ensure!(began.status == Some(200) && !began.ended, "no watch: {began:?}");
    }
    Ok(connection)
}

/// Seconds of CPU time per second.
fn idle_cpu(pid: u32, seconds: u64) -> Result<f64> {
    let (began, before) = (Instant::now(), Cpu::of(&[pid])?);
    while began.elapsed() < Duration::from_secs(seconds) {
        thread::park_timeout(Duration::from_secs(seconds).saturating_sub(began.elapsed()));
    }
    Ok((Cpu::of(&[pid])? - before).total / began.elapsed().as_secs_f64())
}

fn kilobytes(bytes: f64) -> String {
    format!("{:.1} KB", bytes / 1e3)
}

/// The maximum number of streams that the sidecar allows on a connection.
const STREAMS: usize = 250;
const SPARE_FILES: usize = 250;
/// In this time each watch is revalidated once, and every connection sends a ping.
const IDLE_SECONDS: u64 = 30;
const PATIENCE: Duration = Duration::from_secs(600);
