//! Describes the machine of the measurements, and its other load.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;
use harness::bed::member;

use crate::table::Table;

pub(crate) fn describe() -> Result<Table> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown", |(_, model)| model);
    let cores = std::thread::available_parallelism()?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let load = fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default();
    let mut table = Table::new(&["cores", "CPU", "Linux", "Kubernetes", "load before"]);
    table.row([
        cores.to_string(),
        model.to_owned(),
        kernel.trim().to_owned(),
        member("m1")?.version.clone(),
        load.to_owned(),
    ]);
    Ok(table)
}

/// Waits while the measured processes do whatever they do without requests.
pub(crate) fn idle(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::thread::park_timeout(time.saturating_sub(begin.elapsed()));
    }
}
