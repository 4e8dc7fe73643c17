//! Clears the line of a step when a signal ends the program, so that the shell prompt begins on an empty
//! line.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// From now on, a signal clears this progress display.
pub(super) fn clears(bar: Option<ProgressBar>) {
    SHOWN.send_replace(bar);
}

/// The shown progress display. The first step starts the thread that waits for signals.
static SHOWN: LazyLock<watch::Sender<Option<ProgressBar>>> = LazyLock::new(|| {
    let (sender, shown) = watch::channel(None);
    let (ready, is_ready) = mpsc::channel();
    // Without the thread the signals keep their default action.
    let _ = thread::Builder::new().name("signals".to_owned()).spawn(move || wait(&shown, ready));
    // Returns when the thread waits for signals, or does not exist.
    let _ = is_ready.recv();
    sender
});

/// Waits for signals; each ends the program by its default action, unless the command handles them.
#[expect(clippy::disallowed_methods, reason = "nothing tells when the terminal has echoed the key")]
fn wait(shown: &watch::Receiver<Option<ProgressBar>>, ready: mpsc::Sender<()>) {
    let Ok(mut signals) = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM]) else { return };
    drop(ready);
    for signal in &mut signals {
        if matches!(signal, SIGINT | SIGQUIT) {
            thread::sleep(KEY);
        }
        // Cloned, so that the borrow does not block the start of the next step.
        let bar = shown.borrow().clone();
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        if !HANDLED.load(Ordering::SeqCst) {
            let _ = emulate_default_handler(signal);
        }
    }
}

/// While this value exists, signals do not end the program, because a change must be completed or undone.
pub(crate) struct Interrupt;

impl Interrupt {
    pub(crate) fn handle() -> Self {
        HANDLED.store(true, Ordering::SeqCst);
        Self
    }

    /// The result of the work; `None` if a signal has come first.
    pub(crate) async fn unless<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let received = async |kind| match signal(kind) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        };
        tokio::select! {
            biased;
            _ = received(SignalKind::interrupt()) => None,
            _ = received(SignalKind::terminate()) => None,
            _ = received(SignalKind::hangup()) => None,
            done = work => Some(done),
        }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        HANDLED.store(false, Ordering::SeqCst);
    }
}

static HANDLED: AtomicBool = AtomicBool::new(false);

/// After the signal of a key, the terminal discards pending output and echoes the key (Linux: `n_tty.c`,
/// `isig`). The line must be cleared later than that.
const KEY: Duration = Duration::from_millis(50);
