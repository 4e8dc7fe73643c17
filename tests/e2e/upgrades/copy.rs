//! `cp` copies files to pods and back unchanged.

use anyhow::Result;
use harness::much;
use harness::noise::{MUCH, noise, sha256};
use harness::scene::Scene;

use crate::upgrades::protocol::{Protocol, over_each_way};

over_each_way!(large_file_is_unchanged_after_a_copy_there_and_back);

fn large_file_is_unchanged_after_a_copy_there_and_back(protocol: Protocol) -> Result<()> {
    let scene = Scene::new(&format!("cp-{}", protocol.tag()))?;
    let caller = scene.caller()?;
    scene.pod("store", "sleep 1000000")?;
    let plugin = protocol.plugin(&scene, &caller)?;
    let sent = noise(2, MUCH);
    std::fs::write(plugin.home().join("there"), &sent)?;

    plugin.ok(&["cp", "there", "store:/kept"])?;
    let kept = plugin.ok(&["exec", "store", "--", "sha256sum", "/kept"])?;
    assert_eq!(kept.split(' ').next(), Some(sha256(&sent).as_str()));

    let back = much::copy_back(&plugin, "store", "/kept", sent.len())?;
    assert_eq!(sha256(&back), sha256(&sent));
    protocol.was_used(&scene, "exec")
}
