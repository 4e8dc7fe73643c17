//! Tests the memory of `kubectl mc tail`, and how it ends, when a pod floods its log or nothing reads the
//! output.

use super::*;

/// A pod that writes the same line endlessly, as fast as it is read.
fn flood(line: &'static str) -> Bed {
    Bed::streaming(move |path, stream: &mut Stream| match log_of(path) {
        Some("web") => {
            stream.begin();
            let piece = line.repeat(65_536 / line.len());
            while stream.goes_on(&piece) {}
        }
        Some(_) => {
            stream.begin();
            stream.piece("2026-01-01T00:00:01Z quiet\n");
            stream.hold();
        }
        None if path.contains("watch=true") => {
            stream.begin();
            stream.hold();
        }
        None => stream.answer(list(&[pod("web", "x://1"), pod("quiet", "x://2")])),
    })
}

const AGAIN: &str = "2026-01-01T00:00:01Z again and again\n";

#[test]
fn closed_pipe_ends_tail_without_error() {
    let bed = flood(AGAIN);
    let mut child = bed
        .command(&["tail", ".", "-f", "-C", "m1,m2"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 100]).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(0) && err.lines().all(|line| line.contains("| + ")), "{err}");
}

#[test]
fn flooding_pod_does_not_silence_another() {
    let bed = flood(AGAIN);
    let mut running = Running::start(&bed, &["tail", ".", "-f", "-C", "m1"]);
    while running.out() != "quiet main | quiet" {}
    running.end();
}

#[test]
fn interrupt_ends_tail_although_output_is_not_read() {
    let bed = flood(AGAIN);
    for clusters in ["m1", "m1,m2"] {
        let mut command = with_default_interrupt(&bed.command(&["tail", ".", "-f", "-C", clusters]));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        wait_until(|| is_full(child.stdout.as_ref().unwrap()));
        let begun = Instant::now();
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let mut status = None;
        while status.is_none() && begun.elapsed() < Duration::from_secs(30) {
            status = child.try_wait().unwrap();
            std::thread::yield_now();
        }
        let threads = if status.is_none() { threads(child.id()) } else { String::new() };
        let _ = child.kill();
        let _ = child.wait();
        let status = status.unwrap_or_else(|| panic!("{clusters}: it goes on: {threads}"));
        // A shell reports 130 for a process that SIGINT ended.
        assert!(matches!(status.code(), None | Some(130)), "{status}");
    }
}

/// The command with SIGINT's default action. A background job of a shell inherits that SIGINT is ignored.
fn with_default_interrupt(command: &Command) -> Command {
    let mut perl = Command::new("perl");
    perl.args(["-e", "$SIG{INT} = 'DEFAULT'; exec @ARGV"])
        .arg(command.get_program())
        .args(command.get_args());
    perl.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    perl.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
    perl
}

#[test]
fn endless_line_needs_little_memory() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let bed = Bed::streaming(move |path, stream: &mut Stream| match log_of(path) {
        Some(_) => {
            stream.begin();
            stream.piece("2026-01-01T00:00:01Z ");
            let piece = "x".repeat(1 << 16);
            while count.fetch_add(1, Ordering::SeqCst) < 100 << 4 && stream.goes_on(&piece) {}
            stream.piece("\n2026-01-01T00:00:02Z end\n");
            stream.hold();
        }
        None if path.contains("watch=true") => stream.hold(),
        None => stream.answer(list(&[pod("web", "x://1")])),
    });
    let mut running = Running::start(&bed, &["tail", ".", "-f", "-C", "m1"]);
    let mut length = 0;
    loop {
        let line = running.out();
        if line == "web main | end" {
            break;
        }
        assert!(line.len() < 2 << 20, "{}", line.len());
        length += line.strip_prefix("web main | ").unwrap().len();
    }
    assert_eq!(length, 100 << 20);
    let most = running.most_memory();
    assert!(most < 64 << 10, "{most} KiB");
    running.end();
}

#[test]
fn endless_list_of_pods_is_an_error() {
    let page =
        json!({"kind": "PodList", "metadata": {"resourceVersion": "1", "continue": "more"}, "items": []});
    let bed = Bed::serving(move |_| ok(&page.to_string()));
    for words in [&["tail", ".", "-C", "m1,m2"][..], &["tail", ".", "-f", "-C", "m1,m2"]] {
        let ran = bed.run(words);
        assert_eq!(ran.code, Some(5), "{ran:?}");
        assert!(
            ran.err.contains("m1 | error: cannot read the answer: a list of more than 2000 pages\n"),
            "{ran:?}"
        );
    }
}

/// Whether the pipe holds more than 32 KiB, so that the plugin's next write does not fit.
fn is_full(pipe: &ChildStdout) -> bool {
    rustix::io::ioctl_fionread(pipe).unwrap() > 32 << 10
}

/// The name, the wait channel and the system call of each thread of a process.
fn threads(pid: u32) -> String {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return String::new() };
    let told = tasks.flatten().map(|task| {
        let told = ["comm", "wchan", "syscall"].map(|file| std::fs::read_to_string(task.path().join(file)));
        told.map(Result::unwrap_or_default).map(|text| text.trim().to_owned()).join(" ")
    });
    told.collect::<Vec<_>>().join("; ")
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
}
