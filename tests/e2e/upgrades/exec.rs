//! `exec` runs commands in pods, with their input, output, exit code and terminal size.

use anyhow::Result;
use harness::caller::Caller;
use harness::much;
use harness::noise::{MUCH, noise, sha256};
use harness::pty::Terminal;
use harness::scene::Scene;
use harness::wait::SOON;

use crate::plugin_in;
use crate::upgrades::protocol::{Protocol, over_each_way};

over_each_way!(
    large_standard_input_is_echoed_completely,
    fault_72_exit_code_is_that_of_the_command,
    standard_error_is_separate_from_standard_output,
    terminal_size_is_forwarded_and_updated,
);

#[test]
fn token_may_exec() -> Result<()> {
    let scene = Scene::new("exec-token")?;
    may_exec(&scene, &Caller::token("ulrike")?)
}

#[test]
fn service_account_may_exec() -> Result<()> {
    let scene = Scene::new("exec-sa")?;
    may_exec(&scene, &Caller::service_account(&scene.name, "robot")?)
}

fn may_exec(scene: &Scene, caller: &Caller) -> Result<()> {
    scene.welcome(caller)?;
    scene.pod("shell", FOREVER)?;
    assert_eq!(plugin_in(scene, caller)?.ok(&["exec", "shell", "--", "echo", "here"])?, "here\n");
    Ok(())
}

fn large_standard_input_is_echoed_completely(protocol: Protocol) -> Result<()> {
    let (scene, plugin) = shell(protocol, "stdin")?;
    let sent = noise(1, MUCH);
    let output = much::echo(&plugin, "shell", &sent)?;
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(output.stdout.len(), sent.len(), "{}", output.stderr);
    assert_eq!(sha256(&output.stdout), sha256(&sent));
    protocol.was_used(&scene, "exec")
}

fn fault_72_exit_code_is_that_of_the_command(protocol: Protocol) -> Result<()> {
    let (scene, plugin) = shell(protocol, "codes")?;
    for (command, code) in
        [("exit 0", 0), ("exit 1", 1), ("exit 7", 7), ("kill -9 $$", 137), ("exit 255", 255)]
    {
        let output = plugin.run(&["exec", "shell", "--", "sh", "-c", command])?;
        assert_eq!(output.code, code, "{output:?}");
    }
    protocol.was_used(&scene, "exec")
}

fn standard_error_is_separate_from_standard_output(protocol: Protocol) -> Result<()> {
    let (scene, plugin) = shell(protocol, "stderr")?;
    let output = plugin.run(&["exec", "shell", "--", "sh", "-c", "echo out; echo err >&2"])?;
    assert_eq!((output.text().as_str(), output.stderr.as_str()), ("out\n", "err\n"));
    protocol.was_used(&scene, "exec")
}

fn terminal_size_is_forwarded_and_updated(protocol: Protocol) -> Result<()> {
    let (scene, plugin) = shell(protocol, "tty")?;
    let mut terminal = Terminal::start(&plugin, &["exec", "-it", "shell", "--", "sh"], 24, 80)?;
    // The terminal echoes the input: the quotes distinguish it from the output.
    let until = |size: &str, word: &str| {
        format!("while [ \"$(stty size)\" != '{size}' ]; do sleep 0.1; done; echo it''is{word}\n")
    };
    terminal.type_in(&until("24 80", "24x80"))?;
    terminal.wait_for("itis24x80", SOON)?;
    terminal.resize(40, 100)?;
    terminal.type_in(&until("40 100", "40x100"))?;
    terminal.wait_for("itis40x100", SOON)?;
    terminal.type_in("exit 3\n")?;
    assert_eq!(terminal.finish(SOON)?, 3);
    protocol.was_used(&scene, "exec")
}

/// A scene with a pod to run commands in, and the plugin there.
fn shell(protocol: Protocol, name: &str) -> Result<(Scene, harness::tool::Tool)> {
    let scene = Scene::new(&format!("exec-{name}-{}", protocol.tag()))?;
    let caller = scene.caller()?;
    scene.pod("shell", FOREVER)?;
    let plugin = protocol.plugin(&scene, &caller)?;
    Ok((scene, plugin))
}

/// The command of a pod that only waits.
const FOREVER: &str = "sleep 1000000";
