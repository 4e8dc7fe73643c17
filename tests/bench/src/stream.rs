//! Streams many bytes through kubectl exec and port-forward, in one direction at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

/// The command and the direction.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    ExecOut,
    ExecIn,
    ForwardOut,
    ForwardIn,
}

impl Stream {
    pub(crate) const ALL: [Self; 4] = [Self::ExecOut, Self::ExecIn, Self::ForwardOut, Self::ForwardIn];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ExecOut => "exec, out of the pod",
            Self::ExecIn => "exec, into the pod",
            Self::ForwardOut => "port-forward, out of the pod",
            Self::ForwardIn => "port-forward, into the pod",
        }
    }

    /// Streams this many mebibytes and returns megabytes per second. The clock starts when the
    /// first mebibyte has passed, so that the start of the program and of the stream is not
    /// measured.
    pub(crate) fn run(self, kubectl: &Kubectl, mebibytes: usize) -> Result<f64> {
        let count = format!("dd if=/dev/zero bs=65536 count={} 2>/dev/null", mebibytes * 16);
        let time = match self {
            Self::ExecOut => {
                let mut child = kubectl.start(&["exec", POD, "--", "sh", "-c", &count], Stdio::null())?;
                let time = drain(child.0.stdout.take().context("no output")?, mebibytes)?.elapsed();
                child.success()?;
                time
            }
            Self::ExecIn => {
                // The shell must outlive the cat: containerd closes the input of a process that has closed
                // its output.
                let sink = ["exec", "-i", POD, "--", "sh", "-c", "cat >/dev/null; echo done"];
                let mut child = kubectl.start(&sink, Stdio::piped())?;
                let begin = pour(child.0.stdin.take().context("no input")?, mebibytes)?;
                confirmed(child.0.stdout.take().context("no output")?)?;
                let time = begin.elapsed();
                child.success()?;
                time
            }
            Self::ForwardOut => {
                let mut forward = kubectl.start(FORWARD, Stdio::null())?;
                let mut socket = TcpStream::connect(("127.0.0.1", forward.port()?))?;
                writeln!(socket, "out {}", mebibytes * 16)?;
                drain(socket, mebibytes)?.elapsed()
            }
            Self::ForwardIn => {
                let mut forward = kubectl.start(FORWARD, Stdio::null())?;
                let mut socket = TcpStream::connect(("127.0.0.1", forward.port()?))?;
                writeln!(socket, "in {}", mebibytes * 16)?;
                let begin = pour(&socket, mebibytes)?;
                confirmed(socket)?;
                begin.elapsed()
            }
        };
        Ok(megabytes(mebibytes - 1) / time.as_secs_f64())
    }
}

/// kubectl, or the plugin in its place, on one route.
pub(crate) struct Kubectl<'a> {
    pub(crate) program: &'a Path,
    pub(crate) leading: Vec<String>,
    pub(crate) kubeconfig: &'a Path,
    pub(crate) home: &'a Path,
    pub(crate) namespace: &'a str,
}

impl Kubectl<'_> {
    fn start(&self, arguments: &[&str], stdin: Stdio) -> Result<Running> {
        let mut command = Command::new(self.program);
        command
            .args(&self.leading)
            .args(["--namespace", self.namespace])
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig)
            .env("HOME", self.home)
            .stdin(stdin)
            .stdout(Stdio::piped());
        Ok(Running(command.spawn().with_context(|| format!("cannot start {command:?}"))?))
    }
}

/// Killed when this is dropped.
struct Running(Child);

impl Running {
    fn success(mut self) -> Result<()> {
        let status = self.0.wait()?;
        ensure!(status.success(), "kubectl: {status}");
        Ok(())
    }

    /// The local port of a port-forward.
    fn port(&mut self) -> Result<u16> {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().context("no output")?).read_line(&mut line)?;
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
        port.and_then(|port| port.parse().ok()).with_context(|| format!("no port: {line:?}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads all of it; returns the time when the first mebibyte had arrived.
fn drain(mut from: impl Read, mebibytes: usize) -> Result<Instant> {
    let mut buffer = vec![0; CHUNK];
    let (mut begin, mut received) = (None, 0);
    loop {
        match from.read(&mut buffer)? {
            0 => break,
            length => received += length,
        }
        if received >= MEBIBYTE {
            begin.get_or_insert_with(Instant::now);
        }
    }
    ensure!(received == mebibytes * MEBIBYTE, "{received} bytes came of {mebibytes} MiB");
    begin.context("nothing to measure")
}

/// Writes all of it; returns the time when the first mebibyte had been taken.
fn pour(mut to: impl Write, mebibytes: usize) -> Result<Instant> {
    let chunk = vec![0; CHUNK];
    for _ in 0..MEBIBYTE / CHUNK {
        to.write_all(&chunk)?;
    }
    let begin = Instant::now();
    for _ in MEBIBYTE / CHUNK..mebibytes * MEBIBYTE / CHUNK {
        to.write_all(&chunk)?;
    }
    to.flush()?;
    Ok(begin)
}

/// Waits until the pod confirms that it has all of it.
fn confirmed(mut from: impl Read) -> Result<()> {
    let mut said = String::new();
    from.read_to_string(&mut said)?;
    ensure!(said == "done\n", "the pod said {said:?}");
    Ok(())
}

pub(crate) fn megabytes(mebibytes: usize) -> f64 {
    // The number is far below those that a float cannot represent exactly.
    (mebibytes * MEBIBYTE) as f64 / 1e6
}

/// The command of the pod. A client of port 9000 sends one line with the direction and the number of blocks,
/// because a forwarded port has no half-close.
pub(crate) const SERVE: &str = "nc -ll -p 9000 -e sh -c 'read way count; \
     if [ $way = in ]; then dd of=/dev/null bs=65536 count=$count iflag=fullblock 2>/dev/null; echo done; \
     else dd if=/dev/zero bs=65536 count=$count 2>/dev/null; fi'";
pub(crate) const POD_NAME: &str = "stream";
const POD: &str = "pod/stream";
const FORWARD: &[&str] = &["port-forward", POD, ":9000"];
const MEBIBYTE: usize = 1 << 20;
const CHUNK: usize = 64 * 1024;
