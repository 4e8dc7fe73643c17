//! `attach` connects to a running process.

use std::io::Write;

use anyhow::{Context, Result};
use harness::scene::Scene;
use harness::wait::SOON;
use serde_json::json;

use crate::upgrades::protocol::{Protocol, over_each_way};

over_each_way!(attach_reaches_the_running_process);

fn attach_reaches_the_running_process(protocol: Protocol) -> Result<()> {
    let scene = Scene::new(&format!("attach-{}", protocol.tag()))?;
    let caller = scene.caller()?;
    scene.start_pod("parrot", &json!({"command": ["cat"], "stdin": true}))?;
    let mut attached = protocol.plugin(&scene, &caller)?.start(&["attach", "--stdin", "parrot"])?;
    attached.stdin.as_mut().context("no standard input")?.write_all(b"polly\n")?;
    attached.wait_for("polly", SOON)?;
    protocol.was_used(&scene, "attach")
}
