//! Clients other than kubectl need only a kubeconfig to use the proxy path. The clients for Python,
//! Node.js and Rust are tested, each by a small program in `tests/clients`.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::noise::{MEBIBYTE, noise, sha256};
use harness::scene::Scene;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::json;

use crate::installed;

/// Makes three tests from each function: one for each client.
macro_rules! with_each_client {
    ($($promise:ident),* $(,)?) => {
        with_each_client!(@ python Python $($promise)*);
        with_each_client!(@ node Node $($promise)*);
        with_each_client!(@ rust Rust $($promise)*);
    };
    (@ $module:ident $client:ident $($promise:ident)*) => {
        mod $module {
            $(#[test]
            fn $promise() -> anyhow::Result<()> {
                super::$promise(super::Client::$client)
            })*
        }
    };
}

with_each_client!(
    get_lists_existing_pods,
    watch_reports_each_change,
    logs_are_the_pods_output,
    exec_transfers_all_bytes_and_the_exit_code,
    attach_reaches_the_running_process,
    port_forward_transfers_all_bytes,
);

#[derive(Clone, Copy, Debug)]
enum Client {
    Python,
    Node,
    Rust,
}

impl Client {
    /// The client's program, and a scene for it.
    fn in_scene(self, subject: &str) -> Result<(Scene, Tool)> {
        let scene = Scene::new(&format!("{}-{subject}", format!("{self:?}").to_lowercase()))?;
        let caller = scene.caller()?.at(&scene.member)?;
        Ok((scene, self.program(&caller)?))
    }

    fn program(self, caller: &Caller) -> Result<Tool> {
        let source = |path: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/clients").join(path);
        let (program, leading) = match self {
            Self::Python => (installed("python/bin/python")?, vec![source("python/client.py")]),
            Self::Node => ("node".into(), vec![source("node/client.mjs"), installed("node")?]),
            Self::Rust => {
                let program = Path::new(env!("CARGO_BIN_EXE_kubectl-mc")).with_file_name("rust-client");
                ensure!(program.exists(), "not built: run cargo build-all --bins");
                (program, Vec::new())
            }
        };
        let leading = leading.iter().map(|path| path.to_str().context("a path that is no text"));
        Ok(Tool::client(program, caller)?.with(&leading.collect::<Result<Vec<_>>>()?))
    }
}

/// The arguments of each program: a verb, a namespace, and the verb's own arguments.
fn words<'a>(verb: &'a str, scene: &'a Scene, rest: &[&'a str]) -> Vec<&'a str> {
    [&[verb, &scene.name], rest].concat()
}

fn get_lists_existing_pods(client: Client) -> Result<()> {
    let (scene, tool) = client.in_scene("get")?;
    scene.pod("one", "sleep 1000000")?;
    assert_eq!(tool.ok(&words("get", &scene, &[]))?, "one\n");
    Ok(())
}

fn watch_reports_each_change(client: Client) -> Result<()> {
    let (scene, tool) = client.in_scene("watch")?;
    let path = |name: &str| format!("/api/v1/namespaces/{}/configmaps/{name}", scene.name);
    let create = |name: &str| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        scene.api.apply(&path(name), &object)
    };
    create("first")?;
    let mut watch = tool.start(&words("watch", &scene, &[]))?;
    watch.wait_for("ADDED first\n", SOON)?;
    // The watch is open now, so these events can only come through it.
    create("second")?;
    watch.wait_for("ADDED second\n", SOON)?;
    scene.api.delete(&path("first"))?;
    watch.wait_for("DELETED first\n", SOON)
}

fn logs_are_the_pods_output(client: Client) -> Result<()> {
    let (scene, tool) = client.in_scene("logs")?;
    scene.pod("talker", "echo one; echo two")?;
    eventually("both lines are in the log", SOON, || {
        Ok((tool.ok(&words("logs", &scene, &["talker"]))? == "one\ntwo\n").then_some(()))
    })
}

fn exec_transfers_all_bytes_and_the_exit_code(client: Client) -> Result<()> {
    let (scene, tool) = client.in_scene("exec")?;
    scene.pod("shell", "sleep 1000000")?;
    let sent = noise(5, PORTION);
    // The older protocols cannot send the end of the input, so the pod counts bytes.
    let command = format!("head -c {PORTION} > /tmp/kept; cat /tmp/kept; echo err >&2; exit 7");
    let output = tool.run_with_input(&words("exec", &scene, &["shell", "sh", "-c", &command]), &sent)?;
    ensure!(output.code == 7 && output.stderr == "err\n", "{output:?}");
    ensure!(sha256(&output.stdout) == sha256(&sent), "other bytes came back: {output:?}");
    Ok(())
}

fn attach_reaches_the_running_process(client: Client) -> Result<()> {
    let (scene, tool) = client.in_scene("attach")?;
    let command = ["sh", "-c", "read word; echo \"heard $word\""];
    scene.start_pod("parrot", &json!({"command": command, "stdin": true, "stdinOnce": true}))?;
    let output = tool.run_with_input(&words("attach", &scene, &["parrot"]), b"polly\n")?;
    ensure!(output.code == 0 && output.text() == "heard polly\n", "{output:?}");
    Ok(())
}

fn port_forward_transfers_all_bytes(client: Client) -> Result<()> {
    let (scene, tool) = client.in_scene("port-forward")?;
    let serve = format!("head -c {PORTION} /dev/urandom > /file; exec httpd -f -p 8000 -h /");
    scene.pod("web", &serve)?;
    // The pod is already running before its server listens.
    let answer = eventually("the server answers", SOON, || {
        let request = b"GET /file HTTP/1.0\r\n\r\n";
        let output = tool.run_with_input(&words("port-forward", &scene, &["web", "8000"]), request)?;
        ensure!(output.code == 0 && !output.stdout.is_empty(), "{output:?}");
        Ok(Some(output.stdout))
    })?;
    // Before the server answers, the file may be incomplete.
    let expected = tool.ok(&words("exec", &scene, &["web", "sha256sum", "/file"]))?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").context("no head")? + 4;
    ensure!(expected.starts_with(&sha256(&answer[end..])), "other bytes came: {}", answer.len() - end);
    Ok(())
}

const PORTION: usize = 2 * MEBIBYTE;
