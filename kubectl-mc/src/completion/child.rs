//! Runs a program for its standard output until a deadline. It has no standard input, so it cannot prompt;
//! its standard error is discarded, because the terminal belongs to the shell.

use std::process::{Command, Stdio};

use tokio::time::Instant;

use crate::cluster::client;

/// The output of the program, if it succeeded before the deadline. At the deadline the program and its
/// children are killed.
pub(super) fn output(mut command: Command, deadline: Instant) -> Option<Vec<u8>> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    client::runtime().ok()?.block_on(async {
        let mut command = tokio::process::Command::from(command);
        let child = command.kill_on_drop(true).spawn().ok()?;
        let id = child.id();
        // The child is not reaped before the group is killed, so the id still belongs to it.
        let mut ended = std::pin::pin!(child.wait_with_output());
        tokio::select! {
            output = &mut ended => {
                let output = output.ok()?;
                output.status.success().then_some(output.stdout)
            }
            () = tokio::time::sleep_until(deadline) => { kill(id); None }
            _ = tokio::signal::ctrl_c() => { kill(id); None }
        }
    })
}

/// Kills the whole process group, including a credential plugin of kubectl.
#[cfg(unix)]
fn kill(id: Option<u32>) {
    let id = id.and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(id) = id {
        let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
    }
}

/// On other systems the child is killed when it is dropped.
#[cfg(not(unix))]
fn kill(_: Option<u32>) {}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn shell(script: &str, limit: Duration) -> Option<Vec<u8>> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        output(command, Instant::now() + limit)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn output_of_a_success_is_returned() {
        assert_eq!(shell("echo a; echo b >&2", LONG).as_deref(), Some(&b"a\n"[..]));
        assert_eq!(shell("echo a; exit 1", LONG), None);
        // Its standard input is empty.
        assert_eq!(shell("cat", LONG).as_deref(), Some(&b""[..]));
    }

    #[test]
    fn timeout_kills_the_grandchildren_too() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // The grandchild holds the pipe open for writing until it dies.
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read_to_string(pipe)
        });
        let script = format!("(exec sleep 1000000 >{}) & wait", pipe.display());
        assert_eq!(shell(&script, Duration::from_millis(200)), None);
        assert_eq!(reader.join().unwrap().unwrap(), "");
    }
}
