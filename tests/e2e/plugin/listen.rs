//! Tools use a member through `kubectl mc listen`: kubectl with the printed kubeconfig and with a
//! URL, and curl with the host name. Other clients are in `slow/listen_python.rs`.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};
use harness::bed::kubectl;
use harness::caller::Caller;
use harness::scene::Scene;
use harness::tool::{Running, Tool};
use harness::wait::{SOON, eventually};

use crate::plugin;
use crate::upgrades::port_forward::forward;

/// A running listener, and what it has printed.
pub(super) struct Listening {
    port: String,
    kubeconfig: String,
    certificates: String,
    header: String,
    running: Running,
}

impl Listening {
    pub(super) fn start(caller: &Caller, words: &[&str]) -> Result<Self> {
        let mut running = plugin(caller)?.start(&[&["listen"], words].concat())?;
        running.wait_for("/version\n", SOON)?;
        let out = running.stdout();
        let after = |begin: &str| {
            let rest = out.split_once(begin).with_context(|| format!("no {begin:?}: {out}"))?.1;
            rest.split_ascii_whitespace().next().map(str::to_owned).context("nothing follows")
        };
        let port = after("Listening on 127.0.0.1:")?;
        let (kubeconfig, certificates) = (after("KUBECONFIG=")?, after("--cacert ")?);
        Ok(Self { port, kubeconfig, certificates, header: after(" -H ").unwrap_or_default(), running })
    }

    /// A program with the printed kubeconfig.
    pub(super) fn tool(&self, program: std::path::PathBuf, caller: &Caller) -> Result<Tool> {
        Ok(Tool::client(program, caller)?.env("KUBECONFIG", &self.kubeconfig))
    }
}

const WEB: &str = "mkdir /www; echo here > /www/index.html; echo begun; exec httpd -f -p 8000 -h /www";

/// get, logs, exec, a watch and port-forward.
fn works(kubectl: &Tool) -> Result<()> {
    ensure!(kubectl.ok(&["get", "pods", "-o", "name"])? == "pod/web\n");
    eventually("the log", SOON, || Ok((kubectl.ok(&["logs", "web"])? == "begun\n").then_some(())))?;
    let run = kubectl.run(&["exec", "web", "--", "sh", "-c", "cat /www/index.html; exit 7"])?;
    ensure!(run.code == 7 && run.text() == "here\n", "{run:?}");
    let echoed = kubectl.run_with_input(&["exec", "-i", "web", "--", "cat"], b"there and back\n")?;
    ensure!(echoed.text() == "there and back\n", "{echoed:?}");
    let mut watch = kubectl.start(&["get", "configmaps", "--watch", "-o", "name"])?;
    kubectl.ok(&["create", "configmap", "watched"])?;
    watch.wait_for("configmap/watched\n", SOON)?;
    kubectl.ok(&["delete", "configmap", "watched"])?;
    let (_forward, _, answer) = forward(kubectl, "pod/web", |port| {
        let mut socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        Ok(answer)
    })?;
    ensure!(answer.ends_with("\r\n\r\nhere\n"), "{answer}");
    Ok(())
}

#[test]
fn kubectl_works_by_the_kubeconfig_of_a_listener() -> Result<()> {
    let scene = Scene::new("listen-kubeconfig")?;
    let caller = scene.caller()?;
    scene.pod("web", WEB)?;
    let listener = Listening::start(&caller, &["m1"])?;
    let kubectl = listener.tool(kubectl()?, &caller)?.with(&["--namespace", &scene.name]);
    works(&kubectl)?;
    // The member decides as it does without a listener.
    let refused = kubectl.run(&["get", "nodes"])?;
    ensure!(refused.code == 1 && refused.stderr.contains("Forbidden"), "{refused:?}");
    let denied = kubectl.run(&["get", "pods", "--as=another"])?;
    ensure!(denied.code == 1 && denied.stderr.contains("cannot impersonate"), "{denied:?}");
    // SPDY and WebSocket.
    for variable in ["KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS"] {
        works(&kubectl.clone().env(variable, "false"))?;
    }
    drop(listener.running);
    Ok(())
}

#[test]
fn kubectl_works_by_the_url_of_a_listener() -> Result<()> {
    let scene = Scene::new("listen-url")?;
    let caller = scene.caller()?;
    scene.pod("web", WEB)?;
    let listener = Listening::start(&caller, &["m1"])?;
    let token = std::fs::read_to_string(listener.header.trim_start_matches('@'))?;
    let token = token.trim().trim_start_matches("Authorization: Bearer ").to_owned();
    let url = |scheme: &str, port: &str| format!("--server={scheme}://127.0.0.1:{port}/m1");
    let plain = Tool::client(kubectl()?, &caller)?.env("KUBECONFIG", "/dev/null");
    let plain = plain.with(&["--namespace", &scene.name]);
    works(&plain.clone().with(&[
        &url("https", &listener.port),
        &format!("--certificate-authority={}", listener.certificates),
        &format!("--token={token}"),
    ]))?;
    let open = Listening::start(&caller, &["m1", "--no-token"])?;
    works(&plain.with(&[&url("http", &open.port)]))
}

/// curl resolves NAME.localhost by itself.
#[test]
fn curl_reaches_a_member_by_its_host_name() -> Result<()> {
    let scene = Scene::new("listen-curl")?;
    let caller = scene.caller()?;
    let listener = Listening::start(&caller, &["m1"])?;
    let curl = Tool::client("curl".into(), &caller)?.with(&[
        "--silent",
        "--noproxy",
        "*",
        "--cacert",
        &listener.certificates,
    ]);
    let path = format!("/api/v1/namespaces/{}/configmaps", scene.name);
    let url = format!("https://m1.localhost:{}{path}", listener.port);
    let listed = curl.ok(&["-H", &listener.header, &url])?;
    ensure!(listed.contains("kube-root-ca.crt"), "{listed}");
    let by_path = format!("https://127.0.0.1:{}/m1{path}", listener.port);
    ensure!(curl.ok(&["-H", &listener.header, &by_path])?.contains("kube-root-ca.crt"));
    let unknown = curl.ok(&[&url])?;
    ensure!(unknown.contains("the token is missing or wrong"), "{unknown}");
    let rebound = curl.ok(&["-H", &listener.header, "-H", "Host: evil.example", &url])?;
    ensure!(rebound.contains("the Host header names no cluster"), "{rebound}");
    Ok(())
}
