//! Runs a program for its output, with a time limit.

use std::io::{self, Read};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Timeout of a program that cannot prompt at the terminal, as long as for a login in a browser.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);

/// The standard output of the program. After the limit the program is killed.
pub(crate) fn output_within(command: &mut Command, limit: Option<Duration>) -> io::Result<Output> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let Some(limit) = limit else { return child.wait_with_output() };
    match read_within(&mut child, limit) {
        Ok(stdout) => Ok(Output { status: child.wait()?, stdout, stderr: Vec::new() }),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

/// Reads the output in another thread, because a read has no timeout.
fn read_within(child: &mut Child, limit: Duration) -> io::Result<Vec<u8>> {
    let mut stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    within(limit, move || {
        let mut text = Vec::new();
        stdout.read_to_end(&mut text).map(|_| text)
    })
}

/// The result of the work, which is abandoned after the limit.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name("limited".to_owned()).spawn(move || sender.send(work()))?;
    receiver.recv_timeout(limit).unwrap_or_else(|_| {
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("it did not end within {limit:?}")))
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn program_that_never_ends_is_killed() {
        let limit = Some(Duration::from_millis(100));
        let error = output_within(Command::new("sleep").arg("1000"), limit).unwrap_err();
        assert_eq!(error.to_string(), "it did not end within 100ms");
        let output = output_within(Command::new("sh").args(["-c", "echo a; exit 3"]), Some(LIMIT)).unwrap();
        assert_eq!((output.stdout, output.status.code()), (b"a\n".to_vec(), Some(3)));
    }
}
