//! Reads the resources that processes have used from proc(5).

use std::fs;
use std::ops::Sub;

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// CPU time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cpu {
    /// Exact, to the nanosecond.
    pub(crate) total: f64,
    /// The two parts are in hundredths of a second, and the division between them is sampled.
    pub(crate) user: f64,
    pub(crate) system: f64,
}

impl Cpu {
    /// The CPU time of all threads of these processes since they began. Threads that have ended are missing
    /// from the total; proxies end none while they are measured.
    pub(crate) fn of(pids: &[u32]) -> Result<Self> {
        let mut sum = Self::default();
        for pid in pids {
            let stat = read(*pid, "stat")?;
            let (user, system) = parse(&stat).with_context(|| format!("not a stat: {stat}"))?;
            sum.user += user;
            sum.system += system;
            sum.total += exact(*pid)?;
        }
        Ok(sum)
    }
}

impl Sub for Cpu {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            total: self.total - before.total,
            user: self.user - before.user,
            system: self.system - before.system,
        }
    }
}

/// CPU time of the living threads (Documentation/scheduler/sched-stats.rst).
fn exact(pid: u32) -> Result<f64> {
    let threads = format!("/proc/{pid}/task");
    let threads = fs::read_dir(&threads).with_context(|| format!("cannot read {threads}"))?;
    let mut nanoseconds = 0_u64;
    for thread in threads {
        // A thread may have ended since it was listed.
        let Ok(schedstat) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        let used = schedstat.split_ascii_whitespace().next().context("an empty schedstat")?;
        nanoseconds += used.parse::<u64>()?;
    }
    Ok(nanoseconds as f64 / 1e9)
}

/// Resident memory in megabytes.
pub(crate) fn resident(pid: u32) -> Result<f64> {
    let status = read(pid, "status")?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = kib.and_then(|rest| rest.trim().strip_suffix(" kB")).context("no VmRSS")?;
    Ok(kib.trim().parse::<f64>()? * 1024.0 / 1e6)
}

/// Lets this process and its children open as many files as the system allows, and returns that
/// number.
pub(crate) fn raise_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // If it may not, the limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

/// The children of a process.
pub(crate) fn children(pid: u32) -> Result<Vec<u32>> {
    let children = read(pid, &format!("task/{pid}/children"))?;
    Ok(children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
}

/// Fields 14 and 15. The program's name may contain anything; it ends with the last parenthesis.
fn parse(stat: &str) -> Option<(f64, f64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut seconds = || Some(fields.next()?.parse::<f64>().ok()? / TICKS_PER_SECOND);
    Some((seconds()?, seconds()?))
}

/// `USER_HZ`, which Linux fixes for programs, no matter what its own clock does.
const TICKS_PER_SECOND: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_after_a_name_with_parentheses() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 100 0 0";
        assert_eq!(parse(stat), Some((2.5, 0.5)));
        assert_eq!(parse("7 (a) S 1"), None);
    }
}
