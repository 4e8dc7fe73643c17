//! Ports of pods on this machine.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use harness::noise::{MUCH, noise, sha256};
use harness::scene::Scene;
use harness::wait::{SOON, eventually};

use crate::protocol::{Protocol, over_each_protocol};

over_each_protocol!(a_hundred_connections_carry_everything_both_ways);

fn a_hundred_connections_carry_everything_both_ways(protocol: Protocol) -> Result<()> {
    let scene = Scene::new(&format!("port-forward-{}", protocol.tag()))?;
    let caller = scene.caller()?;
    scene.pod("echo", "nc -ll -p 8000 -e cat")?;
    let plugin = protocol.plugin(&scene, &caller)?;
    let mut forward = plugin.start(&["port-forward", "pod/echo", "--address", "127.0.0.1", ":8000"])?;
    forward.wait_for(" -> 8000", SOON)?;
    let said = forward.stdout();
    let port = said.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
    let port = port.with_context(|| format!("no port: {said}"))?.parse::<u16>()?;
    // The pod runs before it listens.
    eventually("the echo answers", SOON, || echo(port, 0, 1).map(Some))?;

    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    while let number @ 0..CONNECTIONS = next.fetch_add(1, Ordering::Relaxed) {
                        echo(port, number, MUCH.div_ceil(CONNECTIONS))?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().ok().context("a worker panicked")?)
    })?;
    protocol.was_used(&scene, "portforward")
}

/// One connection: everything that is sent comes back, and then the end.
fn echo(port: u16, number: usize, length: usize) -> Result<()> {
    let sent = noise(number as u64, length);
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(SOON))?;
    let mut writer = socket.try_clone()?;
    let mut received = Vec::new();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            writer.write_all(&sent)?;
            writer.shutdown(Shutdown::Write)
        });
        socket.read_to_end(&mut received)?;
        writing.join().ok().context("the writer panicked")?.context("cannot send")
    })?;
    ensure!(received.len() == sent.len(), "connection {number}: {} of {length} came back", received.len());
    ensure!(sha256(&received) == sha256(&sent), "connection {number}: other bytes came back");
    Ok(())
}

const CONNECTIONS: usize = 100;
const AT_ONCE: usize = 10;
