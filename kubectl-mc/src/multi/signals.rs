//! Handles the signals that end the program while cleanup is pending. Before and after that they have their
//! default action, so that Ctrl-C still ends a program that waits for the user or the network.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::low_level::{pipe, unregister};
use signal_hook::{SigId, flag};

/// Receives signals as bytes, until this value is dropped.
pub(crate) struct Signals {
    pub(crate) end: UnixStream,
    /// The terminal was resized.
    pub(crate) resize: UnixStream,
    pipes: Vec<SigId>,
}

impl Signals {
    pub(crate) fn receive() -> io::Result<Self> {
        let (end, ends) = UnixStream::pair()?;
        let (resize, resizes) = UnixStream::pair()?;
        let mut pipes = vec![pipe::register(SIGWINCH, resizes)?];
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            // Once a handler is set, the default action does not come back by itself.
            flag::register_conditional_default(signal, DEFAULT.clone())?;
            pipes.push(pipe::register(signal, ends.try_clone()?)?);
        }
        handle();
        Ok(Self { end, resize, pipes })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        DEFAULT.store(true, Ordering::SeqCst);
        for id in self.pipes.drain(..) {
            unregister(id);
        }
    }
}

/// From now on the caller handles the signals.
pub(super) fn handle() {
    DEFAULT.store(false, Ordering::SeqCst);
}

/// Whether a signal ends the program immediately.
static DEFAULT: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(false)));
