//! exec, logs, port-forward and cp work at a member behind konnectivity's own server and agent.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::bed::{SYSTEM, host, member};
use harness::caller::Caller;
use harness::konnectivity::Konnectivity;
use harness::much;
use harness::noise::{MEBIBYTE, noise, sha256};
use harness::registration::{register, remove};
use harness::scene::{EVERY_VERB, Scene};
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::{Map, Value};

use crate::plugin;
use crate::upgrades::port_forward::forward;

#[test]
fn exec_logs_port_forward_and_cp_pass_konnectivity() -> Result<()> {
    let konnectivity = Konnectivity::start(&[&member("m1")?.server])?;
    register(NAME, &secret_of_m1(&konnectivity)?)?;
    let used = use_pods();
    remove(NAME)?;
    used.map_err(|error| error.context(konnectivity.last_words()))
}

fn use_pods() -> Result<()> {
    let scene = Scene::new("konnectivity")?;
    let caller = Caller::certificate("e2e-konnectivity-user", &[])?;
    scene.let_in(&caller, &["m1", NAME], EVERY_VERB)?;
    scene.allow(&caller)?;
    scene.pod("web", SERVER)?;
    let plugin = plugin(&caller)?.with(&[&format!("--cluster={NAME}"), "--namespace", &scene.name]);
    eventually("the member is reached", SOON, || plugin.ok(&["get", "pod", "web"]).map(Some))?;

    let sent = noise(3, MUCH);
    let echoed = much::echo(&plugin, "web", &sent)?;
    assert_eq!((echoed.code, sha256(&echoed.stdout)), (0, sha256(&sent)), "{}", echoed.stderr);

    std::fs::write(plugin.home().join("there"), &sent)?;
    plugin.ok(&["cp", "there", "web:/www/file"])?;
    let kept = plugin.ok(&["exec", "web", "--", "sha256sum", "/www/file"])?;
    assert_eq!(kept.split(' ').next(), Some(sha256(&sent).as_str()));
    let back = much::copy_back(&plugin, "web", "/www/file", sent.len())?;
    assert_eq!(sha256(&back), sha256(&sent));

    let (_forward, _, downloaded) = forward(&plugin, "pod/web", download)?;
    assert_eq!(downloaded, sha256(&sent));
    followed(&plugin)
}

/// Follows a log: each line arrives when it is written, and not only at the end.
fn followed(plugin: &Tool) -> Result<()> {
    let mut logs = plugin.start(&["logs", "--follow", "web"])?;
    for word in ["one", "two"] {
        plugin.ok(&["exec", "web", "--", "sh", "-c", &format!("echo {word} > /proc/1/fd/1")])?;
        logs.wait_for(&format!("{word}\n"), SOON)?;
    }
    Ok(())
}

fn download(port: u16) -> Result<String> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(SOON))?;
    socket.write_all(b"GET /file HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").context("no head")?;
    ensure!(answer.starts_with(b"HTTP/1.1 200 OK") || answer.starts_with(b"HTTP/1.0 200 OK"), "no file");
    Ok(sha256(&answer[head + 4..]))
}

/// The Secret of m1, with a connection through konnectivity.
fn secret_of_m1(konnectivity: &Konnectivity) -> Result<Value> {
    let secret = host()?.get(&format!("/api/v1/namespaces/{SYSTEM}/secrets/m1.member"))?;
    let mut keys = Map::new();
    for (key, value) in secret["data"].as_object().context("no data")? {
        let value = STANDARD.decode(value.as_str().unwrap_or_default())?;
        keys.insert(key.clone(), String::from_utf8(value)?.into());
    }
    keys.extend(konnectivity.secret_keys().as_object().cloned().unwrap_or_default());
    Ok(keys.into())
}

const NAME: &str = "e2e-konnectivity";
const MUCH: usize = 8 * MEBIBYTE;
const SERVER: &str = "mkdir /www; exec httpd -f -p 8000 -h /www";
