//! Clears the line of a step when a signal ends the program, so that the shell's prompt begins on an empty line.

use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use tokio::sync::watch;

/// From now on a signal clears this.
pub(super) fn clears(bar: Option<ProgressBar>) {
    SHOWN.send_replace(bar);
}

/// What is shown. The first step starts the thread that waits for signals.
static SHOWN: LazyLock<watch::Sender<Option<ProgressBar>>> = LazyLock::new(|| {
    let (sender, shown) = watch::channel(None);
    let (ready, is_ready) = mpsc::channel();
    // Without the thread the signals keep their default action.
    let _ = thread::Builder::new().name("signals".to_owned()).spawn(move || wait(&shown, ready));
    // Its end is the answer: the thread waits now, or there is none.
    let _ = is_ready.recv();
    sender
});

/// Each signal ends the program by its default action.
#[expect(clippy::disallowed_methods, reason = "nothing tells when the terminal has echoed the key")]
fn wait(shown: &watch::Receiver<Option<ProgressBar>>, ready: mpsc::Sender<()>) {
    let Ok(mut signals) = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM]) else { return };
    drop(ready);
    for signal in &mut signals {
        if matches!(signal, SIGINT | SIGQUIT) {
            thread::sleep(KEY);
        }
        // Copied out: ending the bar must not wait for whom shows the next one.
        let bar = shown.borrow().clone();
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        let _ = emulate_default_handler(signal);
    }
}

/// After the signal of a key the terminal discards what is being written, and echoes the key (Linux: `n_tty.c`, `isig`):
/// what clears the line comes later.
const KEY: Duration = Duration::from_millis(50);
