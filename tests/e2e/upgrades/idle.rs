//! Streams through an agent stay open after QUIET_SECONDS (40) without data, which is longer than
//! the silence after which a tunnel ends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::scene::Scene;
use harness::wait::SOON;

use crate::number;
use crate::upgrades::port_forward::forward;
use crate::upgrades::protocol::{Protocol, over};

over!(over_websocket_by_agent, WebSocketByAgent, quiet_streams_stay_open);
over!(over_spdy_by_agent, SpdyByAgent, quiet_streams_stay_open);

fn quiet_streams_stay_open(protocol: Protocol) -> Result<()> {
    let scene = Scene::new(&format!("quiet-{}", protocol.tag()))?;
    let caller = scene.caller()?;
    let said_late = "until [ -e /go ]; do sleep 0.2; done; echo it goes on";
    scene.pod("web", &format!("nc -ll -p 8000 -e cat & {said_late}; sleep 3600"))?;
    let plugin = protocol.plugin(&scene, &caller)?;

    let mut logs = plugin.start(&["logs", "--follow", "web"])?;
    let mut watch = plugin.start(&["get", "configmaps", "--watch", "--output=name"])?;
    watch.wait_for("configmap/kube-root-ca.crt", SOON)?;
    let mut exec = plugin.start(&["exec", "--stdin", "web", "--", "sh", "-c", "echo ready; cat"])?;
    exec.wait_for("ready", SOON)?;
    let (mut forward, _, mut socket) = forward(&plugin, "pod/web", echoed)?;

    exec.stays(Duration::from_secs(number("QUIET_SECONDS", 40)))?;
    for other in [&mut logs, &mut watch, &mut forward] {
        other.stays(Duration::from_millis(1))?;
    }

    plugin.ok(&["create", "configmap", "made-late"])?;
    watch.wait_for("configmap/made-late", SOON)?;
    plugin.ok(&["exec", "web", "--", "touch", "/go"])?;
    logs.wait_for("it goes on", SOON)?;
    exec.stdin.as_mut().context("no standard input")?.write_all(b"said late\n")?;
    exec.wait_for("said late", SOON)?;
    echo(&mut socket, b"said late too")
}

/// A connection to a pod that echoes.
fn echoed(port: u16) -> Result<TcpStream> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(SOON))?;
    echo(&mut socket, b"ready")?;
    Ok(socket)
}

fn echo(socket: &mut TcpStream, sent: &[u8]) -> Result<()> {
    socket.write_all(sent)?;
    let mut back = vec![0; sent.len()];
    socket.read_exact(&mut back).context("nothing comes back")?;
    ensure!(back == sent, "other bytes came back: {back:?}");
    Ok(())
}
