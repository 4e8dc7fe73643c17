//! Reads the resources that a process holds and has used, from proc(5).

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Resident memory in bytes.
pub fn resident(pid: u32) -> Result<usize> {
    kilobytes(pid, "VmRSS:")
}

/// Peak resident memory since the program began, in bytes.
pub fn peak(pid: u32) -> Result<usize> {
    kilobytes(pid, "VmHWM:")
}

/// CPU time since it began, including threads that have ended.
pub fn cpu(pid: u32) -> Result<Duration> {
    let stat = read(pid, "stat")?;
    let ticks = ticks(&stat).with_context(|| format!("not a stat: {stat}"))?;
    Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// How many files it has open.
pub fn open_files(pid: u32) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// Lets this process and its children have this many files open. It is an error if the machine does
/// not allow it: with fewer files, a test would show something else.
pub fn room_for_files(files: u64) -> Result<()> {
    let hard = getrlimit(Resource::Nofile).maximum;
    let allowed = hard.unwrap_or(u64::MAX);
    ensure!(
        allowed >= files,
        "this test needs {files} open files, and the hard limit is {allowed} (ulimit -Hn)"
    );
    Ok(setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard })?)
}

/// Fields 14 and 15. The program's name may contain anything; it ends with the last parenthesis.
fn ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut times = after_name.split_ascii_whitespace().skip(11);
    Some(times.next()?.parse::<u64>().ok()? + times.next()?.parse::<u64>().ok()?)
}

/// A line of the process' status, in bytes.
fn kilobytes(pid: u32, name: &str) -> Result<usize> {
    let status = read(pid, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let line = line.with_context(|| format!("no {name}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse::<usize>()? * 1024)
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
}

/// `USER_HZ`, which Linux fixes for programs, no matter what the kernel's own value is.
const TICKS_PER_SECOND: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_after_a_name_with_parentheses() {
        let stat = "1 (a) b) S 1 1 1 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), Some(200));
    }

    #[test]
    fn open_file_limit_error_names_the_limit() {
        room_for_files(16).unwrap();
        if let Some(hard) = getrlimit(Resource::Nofile).maximum {
            assert_eq!(getrlimit(Resource::Nofile).current, Some(hard));
            let error = room_for_files(hard + 1).unwrap_err().to_string();
            assert!(error.contains(&format!("the hard limit is {hard}")), "{error}");
        }
    }

    #[test]
    fn usage_of_this_process_is_not_zero() {
        let pid = std::process::id();
        assert!(peak(pid).unwrap() >= resident(pid).unwrap());
        assert!(resident(pid).unwrap() > 0 && open_files(pid).unwrap() > 0);
        assert!(cpu(pid).is_ok());
    }
}
