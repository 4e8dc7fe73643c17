//! Handles the signals that end the program while cleanup is pending. Before and after that they have their
//! default action, so that Ctrl-C still ends a program that waits for the user or the network.

use std::ffi::c_int;
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
    _handled: Handled,
}

impl Signals {
    pub(crate) fn receive() -> io::Result<Self> {
        let (end, ends) = UnixStream::pair()?;
        let (resize, resizes) = UnixStream::pair()?;
        let mut pipes = vec![pipe::register(SIGWINCH, resizes)?];
        for signal in ENDING {
            pipes.push(pipe::register(signal, ends.try_clone()?)?);
        }
        Ok(Self { end, resize, pipes, _handled: Handled::begin() })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.pipes.drain(..) {
            unregister(id);
        }
    }
}

/// While it lives, its owner handles the signals.
pub(super) struct Handled(());

impl Handled {
    pub(super) fn begin() -> Self {
        DEFAULT.store(false, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Handled {
    fn drop(&mut self) {
        DEFAULT.store(true, Ordering::SeqCst);
    }
}

/// Whether a signal ends the program immediately. Once a handler is set, the default action does not come back
/// by itself.
static DEFAULT: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| {
    let default = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        // It fails for signals that cannot be handled at all.
        let _ = flag::register_conditional_default(signal, default.clone());
    }
    default
});

const ENDING: [c_int; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
