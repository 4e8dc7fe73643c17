//! Sends requests one after the other during a change; each of them must be answered with 200.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Result, anyhow, ensure};

use crate::api::Api;
use crate::http1::Response;

/// Sends GETs of `path`, each on a new connection, until `change` has returned.
pub fn while_asking(api: &Api, path: &str, change: impl FnOnce() -> Result<()>) -> Result<()> {
    while_sending(|| api.request("GET", path, "", ""), change)
}

/// The same with any function that sends a request.
pub fn while_sending(
    ask: impl Fn() -> Result<Response> + Sync,
    change: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let stop = AtomicBool::new(false);
    let (changed, asked) = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let (mut asked, mut failed) = (0, BTreeMap::<_, usize>::new());
            while !stop.load(Ordering::Relaxed) {
                asked += 1;
                let failure = match ask() {
                    Ok(answer) if answer.status() == 200 => continue,
                    Ok(answer) => format!("{}: {}", answer.status(), answer.text().trim()),
                    Err(error) => format!("{error:#}"),
                };
                *failed.entry(failure).or_default() += 1;
            }
            (asked, failed)
        });
        let changed = change();
        stop.store(true, Ordering::Relaxed);
        (changed, asking.join())
    });
    changed?;
    let (asked, failed) = asked.map_err(|_| anyhow!("who asked panicked"))?;
    ensure!(failed.is_empty(), "of {asked} requests there failed: {failed:#?}");
    ensure!(asked > 20, "only {asked} requests were made");
    Ok(())
}
