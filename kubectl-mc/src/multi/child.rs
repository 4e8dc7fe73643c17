//! Runs one kubectl process in its own process group until it ends. No process of the group survives it.

use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::Sender;
use tokio::sync::watch;

use super::outcome::Fault;
use crate::server_text::ServerText;

/// The input of a child process, and its limits.
pub(super) struct Child {
    pub(super) command: Command,
    /// The standard input; `None` means empty.
    pub(super) input: Option<Arc<[u8]>>,
    pub(super) timeout: Option<Duration>,
    /// Whether exit code 1 may be a negative answer.
    pub(super) may_say_no: bool,
}

/// An event of a child.
#[derive(Debug)]
pub(super) enum Event {
    Out(Vec<u8>),
    Err(Vec<u8>),
    End(Result<(), Fault>),
}

/// Runs the child to its end. Dropping the future kills the child.
pub(super) async fn run(child: Child, events: &Sender<Event>) -> Result<(), Fault> {
    let Child { mut command, input, timeout, may_say_no } = child;
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(true);
    let mut process =
        command.spawn().map_err(|error| Fault::Other(format!("cannot start kubectl: {error}")))?;
    let _group = Group(process.id());
    let (stdin, out, err) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
    let (over, is_over) = watch::channel(false);
    let ended = async {
        let feed = async {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // If the child does not read all of it, the exit code decides.
                tokio::select! {
                    _ = stdin.write_all(&input) => {}
                    () = after_end(is_over.clone()) => {}
                }
            }
        };
        let wait = async {
            let status = process.wait().await;
            over.send_replace(true);
            status
        };
        let out = pass(out, &is_over, events, Event::Out);
        let err = pass(err, &is_over, events, Event::Err);
        let ((), _, said, status) = tokio::join!(feed, out, err, wait);
        (status, said)
    };
    let (status, said) = match timeout {
        Some(timeout) => tokio::time::timeout(timeout, ended).await.map_err(|_| Fault::TimedOut(timeout))?,
        None => ended.await,
    };
    let status = status.map_err(|error| Fault::Other(format!("cannot wait for kubectl: {error}")))?;
    judge(status, &String::from_utf8_lossy(&said), may_say_no)
}

/// Forwards the output until it ends, or until the child has ended and the content of the pipe is forwarded:
/// a process that a credential plugin left in the background may keep the pipe open, and write into it.
/// Returns its beginning.
async fn pass(
    from: Option<impl AsyncRead + Unpin>,
    is_over: &watch::Receiver<bool>,
    events: &Sender<Event>,
    event: fn(Vec<u8>) -> Event,
) -> Vec<u8> {
    let mut first = Vec::new();
    let Some(mut from) = from else { return first };
    let mut after_end = std::pin::pin!(after_end(is_over.clone()));
    loop {
        let mut chunk = Vec::with_capacity(CHUNK);
        let read = tokio::select! {
            biased;
            read = from.read_buf(&mut chunk) => read,
            // A flood of output cannot starve this, because tokio limits how much a task reads at a
            // time.
            () = &mut after_end => return first,
        };
        match read {
            Ok(1..) => {
                let room = SAID.saturating_sub(first.len()).min(chunk.len());
                first.extend_from_slice(&chunk[..room]);
                // Without a receiver, the command is ending.
                let _ = events.send(event(chunk)).await;
            }
            _ => return first,
        }
    }
}

/// Ends some time after the child, when its output can be read at once.
async fn after_end(mut is_over: watch::Receiver<bool>) {
    let _ = is_over.wait_for(|is_over| *is_over).await;
    tokio::time::sleep(AFTER_END).await;
}

/// The result, from the exit code and the error output of kubectl.
fn judge(status: ExitStatus, said: &str, may_say_no: bool) -> Result<(), Fault> {
    let is_error = |line: &str| ERRORS.iter().any(|error| line.starts_with(error));
    match status.code() {
        Some(0) => Ok(()),
        Some(1) if may_say_no && !said.lines().any(is_error) => Err(Fault::NegativeAnswer),
        code => Err(Fault::Kubectl { code, reason: said.lines().find_map(reason).map(ServerText::from) }),
    }
}

/// The cause in an error line of kubectl.
fn reason(line: &str) -> Option<&str> {
    if let Some((reason, _)) =
        line.strip_prefix("Error from server (").and_then(|rest| rest.split_once("): "))
    {
        return Some(reason);
    }
    if let Some((_, words)) = CAUSES.iter().find(|(text, _)| line.contains(text)) {
        return Some(words);
    }
    let words = line.strip_prefix("error: ")?.trim();
    (words.chars().count() <= WORDS).then_some(words)
}

/// The process group of a child: kubectl may start other processes (credential plugins, `diff`).
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix has process groups"))]
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(id) = self.0.and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
            // The group may already be gone.
            let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
        }
    }
}

/// The child's last output can be read at once; this allows for a busy machine.
const AFTER_END: Duration = Duration::from_secs(1);
const CHUNK: usize = 16 * 1024;
/// Enough for the first error of kubectl.
const SAID: usize = 8 * 1024;
/// A longer text would fill the line of the summary.
const WORDS: usize = 60;
/// Error texts of kubectl, and their names in a summary.
const CAUSES: &[(&str, &str)] = &[
    ("Metrics API not available", "no metrics API"),
    ("error: timed out waiting for", "timed out"),
    ("context deadline exceeded", "timed out"),
    ("the server doesn't have a resource type", "no such resource type"),
    ("no matches for kind", "no such resource type"),
    ("You must be logged in to the server", "not logged in"),
    ("Unable to connect to the server", "unreachable"),
    ("The connection to the server", "unreachable"),
];
/// The prefixes of kubectl's error lines.
const ERRORS: &[&str] =
    &["error: ", "Error from server", "Unable to connect", "The connection to the server"];

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[tokio::test]
    async fn background_process_with_the_output_delays_no_end() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo said; echo 'error: no' >&2; exit 1"]);
        // More than fits into a pipe that is not read.
        let input = Some(Arc::from(vec![b'x'; 1 << 20]));
        let (events, mut received) = tokio::sync::mpsc::channel(8);
        let child = Child { command, input, timeout: None, may_say_no: false };
        let ended = tokio::time::timeout(Duration::from_secs(60), run(child, &events)).await;
        assert_eq!(ended, Ok(Err(Fault::Kubectl { code: Some(1), reason: Some("no".into()) })));
        drop(events);
        let mut said = Vec::new();
        while let Some(event) = received.recv().await {
            said.extend(match event {
                Event::Out(text) | Event::Err(text) => text,
                Event::End(_) => Vec::new(),
            });
        }
        said.sort_unstable();
        let mut expected = b"said\nerror: no\n".to_vec();
        expected.sort_unstable();
        assert_eq!(said, expected);
    }

    #[tokio::test]
    async fn background_process_that_floods_delays_no_end() {
        let mut command = Command::new("sh");
        command.args(["-c", "yes & exit 0"]);
        let (events, mut received) = tokio::sync::mpsc::channel(8);
        let child = Child { command, input: None, timeout: None, may_say_no: false };
        let drain = tokio::spawn(async move { while received.recv().await.is_some() {} });
        let ended = tokio::time::timeout(Duration::from_secs(60), run(child, &events)).await;
        assert_eq!(ended, Ok(Ok(())));
        drop(events);
        drain.await.unwrap();
    }

    #[test]
    fn kubectl_output_gives_the_reason() {
        let code = |code: i32| ExitStatus::from_raw(code << 8);
        let kubectl =
            |code, reason: Option<&str>| Err(Fault::Kubectl { code, reason: reason.map(Into::into) });
        let forbidden = "Warning: x\nError from server (Forbidden): pods is forbidden\n";
        assert_eq!(judge(code(0), "Warning: x", false), Ok(()));
        assert_eq!(judge(code(1), forbidden, false), kubectl(Some(1), Some("Forbidden")));
        assert_eq!(judge(code(7), "", false), kubectl(Some(7), None));
        assert_eq!(judge(ExitStatus::from_raw(9), "", false), kubectl(None, None));
        assert_eq!(judge(code(1), "", true), Err(Fault::NegativeAnswer));
        assert_eq!(judge(code(1), "error: no such file\n", true), kubectl(Some(1), Some("no such file")));
        for (said, cause) in [
            ("error: Metrics API not available\n", "no metrics API"),
            ("Warning: x\nerror: timed out waiting for the condition on pods/x\n", "timed out"),
            ("Unable to connect to the server: net/http: TLS handshake timeout", "unreachable"),
            ("error: the server doesn't have a resource type \"x\"", "no such resource type"),
            (&format!("error: {}", "long ".repeat(20)), "failed"),
            ("", "failed"),
        ] {
            let fault = judge(code(1), said, false).unwrap_err();
            assert_eq!(fault.cause(&"m1".parse().unwrap()), cause, "{said}");
        }
        assert_eq!(judge(code(2), "", true), kubectl(Some(2), None));
    }
}
