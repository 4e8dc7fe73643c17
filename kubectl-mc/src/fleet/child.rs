//! One kubectl: started in a process group of its own, read until it ends, and not outlived by
//! anything of it.

use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::SendError;

use super::Fault;

/// What a child is and how long it may take.
pub(super) struct Child {
    pub(super) command: Command,
    pub(super) timeout: Option<Duration>,
}

/// What comes of a child.
#[derive(Debug)]
pub(super) enum Event {
    Out(Vec<u8>),
    Err(Vec<u8>),
    End(Result<(), Fault>),
}

/// Runs it to its end. When this is dropped before, nothing of the child goes on.
pub(super) async fn run(child: Child, events: &Sender<Event>) -> Result<(), Fault> {
    let Child { mut command, timeout } = child;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(true);
    let mut process =
        command.spawn().map_err(|error| Fault::Other(format!("cannot start kubectl: {error}")))?;
    let _group = Group(process.id());
    let (out, err) = (process.stdout.take(), process.stderr.take());
    let mut said = Vec::new();
    let ended = async {
        let out = pass(out, |bytes| events.send(Event::Out(bytes)));
        let err = pass(err, |bytes| {
            let room = SAID.saturating_sub(said.len()).min(bytes.len());
            said.extend_from_slice(&bytes[..room]);
            events.send(Event::Err(bytes))
        });
        let ((), ()) = tokio::join!(out, err);
        process.wait().await
    };
    let status = match timeout {
        Some(timeout) => tokio::time::timeout(timeout, ended).await.map_err(|_| Fault::TimedOut(timeout))?,
        None => ended.await,
    };
    judge(status.map_err(|error| Fault::Other(format!("cannot wait for kubectl: {error}")))?, &said)
}

/// Passes on what comes, until it ends or nobody listens.
async fn pass<F: Future<Output = Result<(), SendError<Event>>>>(
    from: Option<impl AsyncRead + Unpin>,
    mut to: impl FnMut(Vec<u8>) -> F,
) {
    let Some(mut from) = from else { return };
    loop {
        let mut chunk = Vec::with_capacity(CHUNK);
        match from.read_buf(&mut chunk).await {
            Ok(1..) if to(chunk).await.is_ok() => {}
            _ => return,
        }
    }
}

/// What the exit code and the words of kubectl say.
fn judge(status: ExitStatus, said: &[u8]) -> Result<(), Fault> {
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(said);
    let reason = said.lines().find_map(|line| line.strip_prefix("Error from server (")?.split_once("): "));
    Err(Fault::Kubectl { code: status.code(), reason: reason.map(|(reason, _)| reason.to_owned()) })
}

/// The process group of a child: kubectl may have started others (credential plugins, pagers).
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(id) = self.0.and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
            // A group that is gone already is what is wanted.
            let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
        }
    }
}

const CHUNK: usize = 16 * 1024;
/// Enough for kubectl's first error.
const SAID: usize = 8 * 1024;
