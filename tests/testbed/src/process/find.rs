//! Finds the processes of a bed and ends them. A signal is sent through a pidfd that was opened before the
//! process was examined: if the process ID is reused in the meantime, no process gets the signal.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::MARK;
use crate::wait;

/// Ends one process of a bed with SIGTERM, and with SIGKILL if that is not enough.
pub(crate) fn end(pid: u32, bed: &str) -> Result<()> {
    let Some(process) = Process::open(pid) else { return Ok(()) };
    if !has_mark(pid, bed) {
        return Ok(());
    }
    process.signal(Signal::TERM);
    if !process.ended_within(POLITE) {
        process.signal(Signal::KILL);
        process.ended_within(FORCED);
    }
    Ok(())
}

/// Kills all processes that belong to a bed, and those that they leave behind, until none is left.
pub(crate) fn end_all(bed: &str, dir: &Path) -> Result<()> {
    wait::until("all processes of the bed end", FORCED, || {
        let mut left = Vec::new();
        for pid in pids() {
            let Some(process) = Process::open(pid) else { continue };
            if has_mark(pid, bed) || lives_in(pid, dir) {
                process.signal(Signal::KILL);
                left.push(pid);
            }
        }
        Ok(if left.is_empty() { Ok(()) } else { Err(format!("still there: {left:?}")) })
    })
}

struct Process(OwnedFd);

impl Process {
    /// None if it is already gone.
    fn open(pid: u32) -> Option<Self> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        pidfd_open(pid, PidfdFlags::empty()).ok().map(Self)
    }

    fn signal(&self, signal: Signal) {
        // The only remaining error is that the process has ended, which is the goal.
        let _ = pidfd_send_signal(&self.0, signal);
    }

    fn ended_within(&self, time: Duration) -> bool {
        let timeout = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0)
    }
}

fn pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

fn has_mark(pid: u32, bed: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| is_marked(&environment, bed))
}

/// Whether its root file system is one of the bed's. This finds containers whose shim is gone.
fn lives_in(pid: u32, dir: &Path) -> bool {
    fs::read_to_string(format!("/proc/{pid}/mountinfo")).is_ok_and(|mounts| is_rooted_in(&mounts, dir))
}

fn is_marked(environment: &[u8], bed: &str) -> bool {
    let mark = format!("{MARK}={bed}");
    environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
}

/// See proc(5): the fifth field is the mount point, and the last one names an overlay's folders.
fn is_rooted_in(mounts: &str, dir: &Path) -> bool {
    let dir = format!("={}/", dir.display());
    mounts.lines().any(|line| line.split(' ').nth(4) == Some("/") && line.contains(&dir))
}

/// A kube-apiserver waits for its watches to end, which is not needed here.
const POLITE: Duration = Duration::from_secs(2);
/// A killed process ends at once, unless the machine is very busy.
const FORCED: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_is_marked_by_the_whole_variable_only() {
        assert!(is_marked(b"PATH=/bin\0TESTBED_PROCESS_OF=mc-1a\0HOME=/", "mc-1a"));
        assert!(!is_marked(b"TESTBED_PROCESS_OF=mc-1ab\0", "mc-1a"));
        assert!(!is_marked(b"X=TESTBED_PROCESS_OF=mc-1a\0", "mc-1a"));
        assert!(!is_marked(b"", "mc-1a"));
    }

    #[test]
    fn container_is_found_by_its_root_and_not_by_other_mounts() {
        let root =
            "5 1 0:9 / / rw - overlay overlay rw,upperdir=/beds/mc-1a/m1/fs,workdir=/beds/mc-1a/m1/work";
        let seen =
            "5 1 0:9 / /x rw - overlay overlay rw,upperdir=/beds/mc-1a/m1/fs,workdir=/beds/mc-1a/m1/work";
        assert!(is_rooted_in(root, Path::new("/beds/mc-1a")));
        assert!(!is_rooted_in(root, Path::new("/beds/mc-1")));
        assert!(!is_rooted_in(seen, Path::new("/beds/mc-1a")));
    }

    #[test]
    fn process_without_the_mark_is_left_alone() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        end(child.id(), "mc-none").unwrap();
        assert!(child.try_wait().unwrap().is_none());
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn process_with_the_mark_is_ended() {
        let bed = format!("mc-test-{}", std::process::id());
        let mut child = std::process::Command::new("cat")
            .env(MARK, &bed)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        end_all(&bed, Path::new("/no/such/folder")).unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
