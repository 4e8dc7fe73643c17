//! kubectl without the plugin, and Helm, use a member through `kubeconfig`, `env` and `shell`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use harness::bed::kubectl;
use harness::caller::Caller;
use harness::scene::Scene;
use harness::tool::Tool;
use testbed::programs;

use crate::plugin;
use crate::upgrades::port_forward::forward;

/// kubectl with a list of kubeconfigs; the caller's own comes first.
fn kubectl_with(caller: &Caller, files: &[PathBuf]) -> Result<Tool> {
    let list = std::env::join_paths(files)?;
    Ok(Tool::client(kubectl()?, caller)?.env("KUBECONFIG", list))
}

#[test]
fn kubectl_works_by_a_printed_context() -> Result<()> {
    let scene = Scene::new("printed-context")?;
    let caller = scene.caller()?;
    scene.pod("web", "mkdir /www; echo here > /www/index.html; exec httpd -f -p 8000 -h /www")?;
    let members = caller.folder().join("members.yaml");
    let printed = plugin(&caller)?.ok(&["kubeconfig", "m1", "--context-prefix=mc/"])?;
    ensure!(!printed.contains("tls.key") && !printed.contains("users:"), "{printed}");
    fs::write(&members, printed)?;
    let kubectl = kubectl_with(&caller, &[caller.kubeconfig(), members])?;
    let kubectl = kubectl.with(&["--context=mc/m1", "--namespace", &scene.name]);
    ensure!(kubectl.ok(&["get", "pods", "-o", "name"])? == "pod/web\n");
    let run = kubectl.run(&["exec", "web", "--", "sh", "-c", "cat /www/index.html; exit 7"])?;
    ensure!(run.code == 7 && run.text() == "here\n", "{run:?}");
    let (_forward, _, answer) = forward(&kubectl, "pod/web", |port| {
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
fn standalone_and_merged_contexts_need_one_file() -> Result<()> {
    let scene = Scene::on("m2", "one-file")?;
    let caller = scene.caller()?;
    let words = ["get", "configmaps", "-n", &scene.name, "-o", "name"];
    let alone = caller.folder().join("alone.yaml");
    fs::write(&alone, plugin(&caller)?.ok(&["kubeconfig", "m2", "--standalone"])?)?;
    // The only context is the current one; the certificate stays in its files.
    ensure!(kubectl_with(&caller, &[alone])?.ok(&words)?.contains("kube-root-ca.crt"));

    // A file that kubectl has written.
    let own = Tool::kubectl(&caller)?;
    own.ok(&["config", "set-context", "host", "--namespace=default"])?;
    plugin(&caller)?.ok(&["kubeconfig", "m2", "--merge", "--prune"])?;
    ensure!(own.ok(&["config", "current-context"])? == "host\n");
    ensure!(own.with(&["--context=m2"]).ok(&words)?.contains("kube-root-ca.crt"));
    Ok(())
}

#[test]
fn helm_installs_on_a_member() -> Result<()> {
    let scene = Scene::new("helm-member")?;
    let caller = scene.caller()?;
    let chart = caller.folder().join("chart");
    fs::create_dir_all(chart.join("templates"))?;
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: tiny\nversion: 0.1.0\n")?;
    let template =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {from: helm}\n";
    fs::write(chart.join("templates/configmap.yaml"), template)?;
    let members = caller.folder().join("members.yaml");
    fs::write(&members, plugin(&caller)?.ok(&["kubeconfig", "m1"])?)?;
    let program = programs::build_helm()?;
    let list = std::env::join_paths([caller.kubeconfig(), members])?;
    let helm = Tool::client(program.clone(), &caller)?.env("KUBECONFIG", list);
    let helm = helm.with(&["--kube-context=m1", "--namespace", &scene.name]);
    let chart = chart.display().to_string();
    helm.ok(&["install", "tiny", &chart, "--wait", "--timeout=2m"])?;
    ensure!(helm.ok(&["list", "-q"])? == "tiny\n");
    let path = format!("/api/v1/namespaces/{}/configmaps/tiny", scene.name);
    ensure!(scene.api.get(&path)?["data"]["from"] == "helm");

    // The same release in the environment of `env` and in a `shell`.
    let mc = env!("CARGO_BIN_EXE_kubectl-mc");
    let script = r#"set -e; eval "$("$0" env -C m1)"; "$1" list -q -n "$2"; kubectl get configmap tiny -n "$2" -o name"#;
    let sh = Tool::client(PathBuf::from("sh"), &caller)?;
    let helm_path = program.display().to_string();
    let printed = sh.ok(&["-c", script, mc, &helm_path, &scene.name])?;
    ensure!(printed == "tiny\nconfigmap/tiny\n", "{printed}");
    let shell = plugin(&caller)?.with(&["shell", "m1", "--"]);
    ensure!(shell.ok(&[&helm_path, "list", "-q", "-n", &scene.name])? == "tiny\n");
    let missing = shell.run(&[&helm_path, "status", "missing", "-n", &scene.name])?;
    ensure!(missing.code == 1 && missing.stderr.contains("release: not found"), "{missing:?}");

    helm.ok(&["uninstall", "tiny", "--wait", "--timeout=2m"])?;
    ensure!(scene.api.get(&path).is_err(), "the ConfigMap is left");
    Ok(())
}
