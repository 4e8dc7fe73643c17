//! Handles signals while a child runs. The terminal sends Ctrl-C and Ctrl-\ to the child as well, and the
//! child decides how to react; termination signals are forwarded to it. So the kubeconfig is removed after
//! the child has exited.

use std::io;
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// Signal handlers. They are installed before the child starts; in the child the default actions apply.
pub(super) struct Forwarder(Signals);

impl Forwarder {
    pub(super) fn prepare() -> io::Result<Self> {
        Ok(Self(Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?))
    }

    /// Forwards signals to this process until the returned value is dropped.
    pub(super) fn forward_to(mut self, child: u32) -> io::Result<Forwarding> {
        let handle = self.0.handle();
        let forward = move || {
            let child = Pid::from_raw(child.cast_signed());
            for signal in self.0.forever() {
                let signal = match signal {
                    SIGHUP => Signal::HUP,
                    SIGTERM => Signal::TERM,
                    _ => continue,
                };
                if let Some(child) = child {
                    // The child may have exited already.
                    let _ = kill_process(child, signal);
                }
            }
        };
        let thread = thread::Builder::new().name("signals".to_owned()).spawn(forward)?;
        Ok(Forwarding { handle, thread: Some(thread) })
    }
}

pub(super) struct Forwarding {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
