//! A log in a pager is complete even if the reader pauses, through the host and through an agent.

use std::time::Instant;

use anyhow::{Result, ensure};
use harness::caller::Caller;
use harness::own_agent;
use harness::pty::Terminal;
use harness::scene::{EVERY_VERB, Scene};
use harness::tool::Tool;
use harness::wait::{SOON, eventually};

use crate::{pause, plugin_in};

#[test]
fn fault_36_paused_pager_shows_the_whole_log() -> Result<()> {
    let scene = Scene::new("pager")?;
    let caller = scene.caller()?;
    let agents = &own_agent::shared()?.cluster;
    scene.let_in(&caller, &[&scene.member, agents], EVERY_VERB)?;
    // 9 MB is less than the 10 MiB after which a kubelet begins another file.
    scene.pod("big", "yes $(printf '%0900d' 0) | head -n 9900; echo the end; sleep 1000000")?;
    let plugin = plugin_in(&scene, &caller)?;
    eventually("the log is written", SOON, || {
        Ok((plugin.ok(&["logs", "--tail=1", "big"])? == "the end\n").then_some(()))
    })?;
    let mut pagers = [scene.member.as_str(), agents]
        .map(|cluster| pager(&caller, cluster, &scene.name))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    for (_, pager) in &mut pagers {
        pager.wait_for("0000", SOON)?;
    }
    let begun = Instant::now();
    eventually("the pause is over", 2 * pause(), || Ok((begun.elapsed() > pause()).then_some(())))?;
    for (logs, mut pager) in pagers {
        ensure!(!logs.home().join("ended").exists(), "the log was read before the pause");
        pager.type_in("G")?;
        pager.wait_until("the end", SOON, |pager| pager.screen().contains("the end"))?;
        pager.type_in("q")?;
        pager.finish(SOON)?;
        assert_eq!(std::fs::read_to_string(logs.home().join("ended"))?, "0\n");
    }
    Ok(())
}

/// `logs` in less on a terminal. Its exit code is in the file `ended` of the tool's home.
fn pager(caller: &Caller, cluster: &str, namespace: &str) -> Result<(Tool, Terminal)> {
    let script = "{ \"$0\" \"$@\"; echo $? >ended; } | less";
    let shell = Tool::client("sh".into(), caller)?.with(&["-c", script, env!("CARGO_BIN_EXE_kubectl-mc")]);
    let terminal = Terminal::start(&shell, &["-C", cluster, "-n", namespace, "logs", "big"], 24, 80)?;
    Ok((shell, terminal))
}
