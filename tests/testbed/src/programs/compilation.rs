//! Runs `go build` and reports its progress: the share of the source files that is compiled, and the time that
//! the rest probably takes.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::go::Go;
use crate::progress;

/// The interval between two lines.
const INTERVAL: Duration = Duration::from_secs(20);

/// Runs the build. `go build -v` names each package when it begins to compile it.
pub(super) fn run(go: &Go<'_>, arguments: &[&str]) -> Result<ExitStatus> {
    let mut remaining = Remaining::parse(&go.run(&["list", "-deps", "-f", STALE])?);
    progress::say(remaining.start());
    let begin = Instant::now();
    let mut build = go.command(&["build", "-v"]);
    let mut build = build
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start: go (Go builds Kubernetes)")?;
    let stderr = BufReader::new(build.stderr.take().context("go has no standard error")?);
    let (sender, lines) = channel();
    thread::scope(|scope| {
        scope.spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut next = begin + INTERVAL;
        loop {
            match lines.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(line) if remaining.begun(&line) => {}
                Ok(line) => progress::say(line),
                Err(RecvTimeoutError::Timeout) => {
                    progress::say(remaining.line(begin.elapsed()));
                    next += INTERVAL;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    Ok(build.wait()?)
}

/// The packages that the build cache lacks, with the number of their files. The programs themselves are stale
/// if only the linker has work.
const STALE: &str = r#"{{if and .Stale (ne .Name "main")}}{{.ImportPath}} {{len .GoFiles}}{{end}}"#;

/// The packages that have not been compiled yet.
struct Remaining {
    files: HashMap<String, usize>,
    all: usize,
}

impl Remaining {
    fn parse(listed: &str) -> Self {
        let packages = listed.lines().filter_map(|line| line.split_once(' '));
        let files: HashMap<_, _> =
            packages.filter_map(|(name, files)| Some((name.to_owned(), files.parse().ok()?))).collect();
        Self { all: files.values().sum(), files }
    }

    fn start(&self) -> String {
        match self.files.len() {
            0 => "every package is in Go's cache; linking".to_owned(),
            packages => format!("{packages} packages to compile, {} files", self.all),
        }
    }

    /// Whether the line shows a package that is being compiled.
    fn begun(&mut self, line: &str) -> bool {
        self.files.remove(line).is_some()
    }

    /// The estimate assumes that each file takes the same time.
    fn line(&self, elapsed: Duration) -> String {
        let so_far = minutes(elapsed);
        let left: usize = self.files.values().sum();
        let done = self.all.saturating_sub(left);
        if left == 0 {
            return format!("compiled; linking, {so_far} so far");
        }
        let percent = done * 100 / self.all;
        // Before that, the packages are those of Go itself, which say nothing about the others.
        if percent < 5 {
            return format!("{percent} % compiled, {so_far} so far");
        }
        let rest = elapsed.mul_f64(left as f64 / done as f64);
        format!("{percent} % compiled, {so_far} so far, roughly {} more", minutes(rest))
    }
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 90 { format!("{seconds} s") } else { format!("{} min", (seconds + 30) / 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_tells_share_and_rest_of_the_time() {
        let mut remaining = Remaining::parse("a 10\nb/c 30\nd 160\n\n");
        assert_eq!(remaining.start(), "3 packages to compile, 200 files");
        assert_eq!(remaining.line(Duration::from_secs(20)), "0 % compiled, 20 s so far");
        assert!(remaining.begun("b/c") && remaining.begun("a"));
        assert!(!remaining.begun("b/c") && !remaining.begun("go: downloading d"));
        let line = remaining.line(Duration::from_secs(60));
        assert_eq!(line, "20 % compiled, 60 s so far, roughly 4 min more");
        assert!(remaining.begun("d"));
        assert_eq!(remaining.line(Duration::from_secs(300)), "compiled; linking, 5 min so far");
        assert_eq!(Remaining::parse("\n").start(), "every package is in Go's cache; linking");
    }
}
