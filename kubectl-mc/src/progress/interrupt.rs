//! Clears the line of a step when a signal ends the program, so that the shell prompt begins on an empty
//! line.

use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use tokio::sync::watch;

/// From now on a signal clears this progress display.
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

/// Waits for signals; each ends the program by its default action.
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
        let _ = emulate_default_handler(signal);
    }
}

/// After the signal of a key, the terminal discards pending output and echoes the key (Linux: `n_tty.c`,
/// `isig`). The line must be cleared later than that.
const KEY: Duration = Duration::from_millis(50);
