//! Transfers large outputs out of a pod by `exec` and `cp`, complete to the last byte. The command
//! in the pod ends only after everything has arrived. kubectl sends a ping every 5 s. If one
//! arrives after the command's end, kube-apiserver drops what it has not delivered yet: plain
//! kubectl then loses megabytes, over SPDY with exit code 0. No proxy can restore them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::tool::{Output, Tool};
use crate::wait::eventually;

/// Sends this to `cat` in a pod, and returns what it sends back.
pub fn echo(plugin: &Tool, pod: &str, sent: &[u8]) -> Result<Output> {
    let cat = format!("cat; {HOLD}");
    let mut running = plugin.start(&["exec", "--stdin", pod, "--", "sh", "-c", &cat])?;
    let mut stdin = running.stdin.take().context("no standard input")?;
    let input = sent.to_owned();
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &input));
    running.wait_until("all that was sent", PATIENCE, |stdout, _| stdout.len() >= sent.len())?;
    let _ = writer.join();
    let_go(plugin, pod)?;
    running.finish(PATIENCE)
}

/// Copies a file of this length out of a pod, and returns its content.
pub fn copy_back(plugin: &Tool, pod: &str, file: &str, length: usize) -> Result<Vec<u8>> {
    // kubectl runs this script instead of the image's own tar; the image's PATH is only /bin.
    let tar = format!("#!/bin/sh\n/bin/busybox tar \"$@\"; status=$?; {HOLD}; exit $status\n");
    let write = "rm /bin/tar && printf %s \"$1\" >/bin/tar && chmod +x /bin/tar";
    plugin.ok(&["exec", pod, "--", "sh", "-c", write, "sh", &tar])?;
    let back = plugin.home().join("back");
    let running = plugin.start(&["cp", &format!("{pod}:{file}"), "back"])?;
    let arrived = || {
        let now = std::fs::metadata(&back).map_or(0, |file| file.len());
        ensure!(now >= length as u64, "{now} of {length} bytes");
        Ok(Some(()))
    };
    let arrived = eventually("all of it has come", PATIENCE, arrived);
    let_go(plugin, pod)?;
    let output = running.finish(PATIENCE)?;
    arrived.with_context(|| format!("{output:?}"))?;
    output.success()?;
    Ok(std::fs::read(&back)?)
}

/// Lets the command end, after checking that it waited.
fn let_go(plugin: &Tool, pod: &str) -> Result<()> {
    plugin.ok(&["exec", pod, "--", "sh", "-c", "test -e /held && touch /heard"]).map(drop)
}

const HOLD: &str = "touch /held; until [ -e /heard ]; do sleep 0.1; done; rm /heard";
const PATIENCE: Duration = Duration::from_secs(180);
