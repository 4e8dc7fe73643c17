//! The plugin as built for Windows, run by wine together with kubectl.exe: paths, folders, output,
//! exit codes, upgrades and Ctrl-C are those of Windows.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};
use harness::bed::bed;
use harness::caller::Caller;
use harness::pty::Terminal;
use harness::scene::{EVERY_VERB, Scene};
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::json;
use testbed::programs::{build_krew_for_windows, kubectl_for_windows};

use crate::upgrades::port_forward::{download, forward, server};

const WINE: &str = "/usr/lib/wine/wine64";

/// Keeps wine's services running for as long as this test program. They inherit the output of the
/// program that starts them, and would otherwise keep it open.
fn services() -> Result<()> {
    static SERVICES: OnceLock<Result<(Child, ChildStdin), String>> = OnceLock::new();
    let start = || -> Result<(Child, ChildStdin)> {
        let mut child = Command::new(WINE)
            .args(["cmd.exe", "/c", "echo ready& pause"])
            .env("WINEPREFIX", target()?.join("windows/prefix"))
            .env("WINEDEBUG", "-all")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).context("no pipes")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(line.trim_end() == "ready", "wine printed {line:?}");
        Ok((child, stdin))
    };
    let started = SERVICES.get_or_init(|| start().map_err(|error| format!("{error:#}")));
    started.as_ref().map(|_| ()).map_err(|error| anyhow!("{error}"))
}

/// Wine as a caller, with separate folders for the plugin.
fn wine(caller: &Caller) -> Result<Tool> {
    services()?;
    let programs = kubectl_for_windows();
    let programs = programs.parent().context("no folder of kubectl.exe")?;
    let tool = Tool::client(WINE.into(), caller)?;
    let of_tool = |name: &str| path(&tool.home().join(name));
    let [config, cache, state] = ["config", "cache", "state"].map(of_tool);
    Ok(tool
        .env("WINEPREFIX", target()?.join("windows/prefix"))
        .env("WINEDEBUG", "-all")
        .env("WINEPATH", path(programs))
        .env("KUBECONFIG", path(&caller.kubeconfig()))
        .env("XDG_CONFIG_HOME", config)
        .env("XDG_CACHE_HOME", cache)
        .env("XDG_STATE_HOME", state))
}

fn target() -> Result<&'static Path> {
    Path::new(env!("CARGO_BIN_EXE_kubectl-mc")).ancestors().nth(2).context("no target folder")
}

fn program() -> Result<String> {
    let program = target()?.join("x86_64-pc-windows-gnu/debug/kubectl-mc.exe");
    ensure!(program.exists(), "not built: {}: run tests/windows/build.sh", program.display());
    Ok(path(&program))
}

/// The path as programs in wine see this file.
fn path(path: &Path) -> String {
    format!("Z:{}", path.display()).replace('/', "\\")
}

struct Place {
    scene: Scene,
    caller: Caller,
    plugin: Tool,
}

/// A scene, and the plugin of a caller who may do anything there.
fn place(tag: &str) -> Result<Place> {
    let scene = Scene::new(&format!("windows-{tag}"))?;
    let caller = scene.caller()?;
    scene.let_in(&caller, &[&scene.member], EVERY_VERB)?;
    let plugin = wine(&caller)?.with(&[&program()?, "-C", &scene.member, "-n", &scene.name]);
    Ok(Place { scene, caller, plugin })
}

#[test]
fn list_of_kubeconfigs_with_windows_paths_reaches_a_member() -> Result<()> {
    let Place { scene, caller, plugin } = place("kubeconfig")?;
    let kubeconfig: serde_json::Value = serde_json::from_slice(&std::fs::read(caller.kubeconfig())?)?;
    let host = &bed()?.host;
    let user = caller.folder();
    let files = [
        json!({"clusters": [{"name": "host", "cluster": {
            "server": host.server, "certificate-authority": path(&host.ca_certificate),
        }}]}),
        json!({"contexts": kubeconfig["contexts"], "current-context": kubeconfig["current-context"], "users": [{
            "name": kubeconfig["users"][0]["name"],
            "user": {"client-certificate": path(&user.join("tls.crt")), "client-key": path(&user.join("tls.key"))},
        }]}),
    ];
    let mut list = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let name = plugin.home().join(format!("{number}.yaml"));
        std::fs::write(&name, file.to_string())?;
        list.push(path(&name));
    }
    let plugin = plugin.env("KUBECONFIG", list.join(";"));
    let expected = "configmap/kube-root-ca.crt\n";
    // A direct request, and kubectl.exe in the path.
    for direct in ["1", "0"] {
        let plugin = plugin.clone().env("KUBECTL_MC_DIRECT", direct);
        let found = plugin.ok(&["get", "configmaps", "-o", "name"])?;
        ensure!(found.replace('\r', "") == expected, "{direct}: {found:?} of {}", scene.name);
    }
    Ok(())
}

/// krew's link to the plugin is not checked, because wine 8 cannot make links.
#[test]
fn krew_installs_the_archive() -> Result<()> {
    services()?;
    let folder = tempfile::tempdir()?;
    let of_folder = |name: &str| folder.path().join(name);
    let plugin = target()?.join("x86_64-pc-windows-gnu/debug/kubectl-mc.exe");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../krew/package.sh");
    let packed = Command::new(script)
        .args(["x86_64-pc-windows-gnu".as_ref(), plugin.as_os_str()])
        .env("KREW_OUT", folder.path())
        .output()?;
    ensure!(packed.status.success(), "{packed:?}");
    let version = env!("CARGO_PKG_VERSION");
    let wine = |program: &Path, words: &[String]| {
        Command::new(WINE)
            .arg(program)
            .args(words)
            .env("WINEPREFIX", target()?.join("windows/prefix"))
            .env("WINEDEBUG", "-all")
            .env("KREW_ROOT", path(&of_folder("krew")))
            .env("KREW_NO_UPGRADE_CHECK", "1")
            .stdin(Stdio::null())
            .output()
            .context("cannot start wine")
    };
    let archive = path(&of_folder(&format!("kubectl-mc_v{version}_windows_amd64.zip")));
    let manifest = path(&of_folder("mc.yaml"));
    let words = ["install".to_owned(), format!("--manifest={manifest}"), format!("--archive={archive}")];
    let installed = wine(&build_krew_for_windows()?, &words)?;
    ensure!(String::from_utf8_lossy(&installed.stderr).contains("Installed plugin: mc"), "{installed:?}");
    let program = of_folder("krew").join(format!("store/mc/v{version}/kubectl-mc.exe"));
    let said = wine(&program, &["version".to_owned(), "--client".to_owned()])?;
    ensure!(String::from_utf8_lossy(&said.stdout).contains(version), "{said:?}");
    Ok(())
}

#[test]
fn folders_are_below_those_of_the_user() -> Result<()> {
    let Place { scene, caller, plugin } = place("folders")?;
    let folder = |name: &str| plugin.home().join(name).join("kubectl-mc");
    std::fs::create_dir_all(folder("config"))?;
    let set = format!("sets: {{ours: {{clusters: [{}]}}}}", scene.member);
    std::fs::write(folder("config").join("config.yaml"), set)?;
    let plugin = wine(&caller)?
        .with(&[&program()?])
        .env("XDG_CONFIG_HOME", path(&plugin.home().join("config")))
        .env("XDG_CACHE_HOME", path(&plugin.home().join("cache")));
    let chosen = plugin.ok(&["-C", "@ours", "--dry-run=clusters", "get", "pods"])?;
    ensure!(chosen.contains(&scene.member), "{chosen}");
    Ok(())
}

#[test]
fn logs_exec_and_port_forward_work() -> Result<()> {
    let Place { scene, plugin, .. } = place("upgrades")?;
    scene.pod("web", &format!("echo said; {}", server()))?;
    eventually("the log is written", SOON, || {
        Ok(plugin.ok(&["logs", "web"])?.starts_with("said").then_some(()))
    })?;
    let echoed = plugin.run_with_input(&["exec", "-i", "web", "--", "cat"], b"sent\n")?.success()?;
    ensure!(echoed == "sent\n", "{echoed:?}");
    ensure!(plugin.run(&["exec", "web", "--", "sh", "-c", "exit 7"])?.code == 7);
    let (_forward, _port, downloaded) = forward(&plugin, "pod/web", download)?;
    let in_pod = plugin.ok(&["exec", "web", "--", "sha256sum", "/www/file"])?;
    ensure!(in_pod.starts_with(&downloaded), "other bytes came");
    Ok(())
}

/// Wine's own exit code has only 8 bits here, so a Windows shell reports it.
#[test]
fn exit_code_above_255_is_kept() -> Result<()> {
    let Place { scene, caller, plugin } = place("codes")?;
    let script = plugin.home().join("run.bat");
    let run = format!("@{} -C {} api-resources\r\n@echo code %ERRORLEVEL%\r\n", program()?, scene.member);
    std::fs::write(&script, run)?;
    let shell = wine(&caller)?.with(&["cmd.exe", "/c", &path(&script)]);
    let kubectl = path(&target()?.join("windows/kubectl-3000.exe"));
    let shell = shell.env("KUBECTL_MC_DIRECT", "0").env("KUBECTL_MC_KUBECTL", kubectl);
    let told = String::from_utf8(shell.run::<&str>(&[])?.stdout)?;
    ensure!(told.contains("code 3000"), "{told:?}");
    Ok(())
}

#[test]
fn interrupt_ends_the_command_and_its_kubectl() -> Result<()> {
    let Place { scene, plugin, .. } = place("interrupt")?;
    scene.pod("web", "while true; do echo again; sleep 1; done")?;
    let mut terminal = Terminal::start(&plugin, &["logs", "-f", "web"], 24, 80)?;
    terminal.wait_for("again", SOON)?;
    terminal.type_in("\x03")?;
    let (code, screen) = terminal.end(SOON)?;
    ensure!(code != 0, "{code}: {screen}");
    Ok(())
}
