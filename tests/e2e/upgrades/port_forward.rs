//! `port-forward` transfers many connections to a pod at once.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use harness::noise::{MUCH, noise, sha256};
use harness::scene::Scene;
use harness::tool::{Running, Tool};
use harness::wait::{SOON, eventually};

use crate::upgrades::protocol::{Protocol, over_each_way};

over_each_way!(hundred_connections_transfer_all_bytes_both_ways);

fn hundred_connections_transfer_all_bytes_both_ways(protocol: Protocol) -> Result<()> {
    let scene = Scene::new(&format!("port-forward-{}", protocol.tag()))?;
    let caller = scene.caller()?;
    scene.pod("web", &server())?;
    let plugin = protocol.plugin(&scene, &caller)?;
    let (_forward, port, expected) = forward(&plugin, "pod/web", download)?;

    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    while let number @ 0..CONNECTIONS = next.fetch_add(1, Ordering::Relaxed) {
                        if number % 2 == 0 {
                            upload(port, number)?;
                        } else {
                            ensure!(download(port)? == expected, "connection {number}: other bytes came");
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().ok().context("a worker panicked")?)
    })?;
    let in_pod = plugin.ok(&["exec", "web", "--", "sha256sum", "/www/file"])?;
    ensure!(in_pod.starts_with(&expected), "other bytes came each time");
    protocol.was_used(&scene, "portforward")
}

/// Runs kubectl in the background, with a local port for the pod's port 8000, and returns the
/// result of `ask`. The pod is running before it listens, and kubectl ends when the pod refuses a
/// connection. In that case, both are started again.
pub(crate) fn forward<T>(
    plugin: &Tool,
    pod: &str,
    ask: impl Fn(u16) -> Result<T>,
) -> Result<(Running, u16, T)> {
    eventually("the pod's server answers", SOON, || {
        let mut forward = plugin.start(&["port-forward", pod, "--address", "127.0.0.1", ":8000"])?;
        forward.wait_for(" -> 8000", SOON)?;
        let said = forward.stdout();
        let port = said.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
        let port = port.with_context(|| format!("no port: {said}"))?.parse()?;
        let answer = ask(port)?;
        Ok(Some((forward, port, answer)))
    })
}

/// A pod's web server: /file has random bytes, and a POST to /cgi-bin/sum returns the digest of its body. It
/// does not echo: streams in both directions through one SPDY connection, which has no flow control of its
/// own, can block each other forever even without a proxy in between.
pub(crate) fn server() -> String {
    format!(
        "mkdir -p /www/cgi-bin; head -c {PORTION} /dev/urandom > /www/file; \
         printf '#!/bin/sh\\necho \"Content-Type: text/plain\"; echo; exec sha256sum\\n' > /www/cgi-bin/sum; \
         chmod +x /www/cgi-bin/sum; exec httpd -f -p 8000 -h /www"
    )
}

/// Sends a portion, and checks that the pod received the same bytes.
fn upload(port: u16, number: usize) -> Result<()> {
    let sent = noise(number as u64, PORTION);
    let head = format!("POST /cgi-bin/sum HTTP/1.0\r\nContent-Length: {PORTION}\r\n\r\n");
    let answer = exchange(port, &[head.as_bytes(), &sent].concat())?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    ensure!(answer.starts_with(&sha256(&sent)), "connection {number}: other bytes arrived: {answer}");
    Ok(())
}

/// The digest of the bytes that the pod sent.
pub(crate) fn download(port: u16) -> Result<String> {
    let file = exchange(port, b"GET /file HTTP/1.0\r\n\r\n")?;
    ensure!(file.len() == PORTION, "{} of {PORTION} bytes came", file.len());
    Ok(sha256(&file))
}

/// Opens one connection, and returns the body of the answer.
pub(crate) fn exchange(port: u16, request: &[u8]) -> Result<Vec<u8>> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(SOON))?;
    socket.write_all(request).context("cannot send")?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).context("cannot receive")?;
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n" || window[..2] == *b"\n\n");
    let head = head.with_context(|| format!("no head: {:?}", String::from_utf8_lossy(&answer)))?;
    let end = if answer[head..].starts_with(b"\n\n") { head + 2 } else { head + 4 };
    Ok(answer.split_off(end))
}

const CONNECTIONS: usize = 100;
const AT_ONCE: usize = 8;
/// Half of the connections send a portion, half receive one.
const PORTION: usize = MUCH / (CONNECTIONS / 2) + 1;
