//! Handles Ctrl-C and the other signals that end a command.

use std::time::Duration;

use crate::cluster::client;

/// Resolves on SIGINT, SIGTERM, SIGHUP or SIGQUIT. If it is dropped before that, these have their
/// default action again.
#[cfg(unix)]
pub(super) async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let handled = super::signals::Handled::begin();
    let wait = |kind| async move {
        match signal(kind) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = wait(SignalKind::interrupt()) => {}
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::hangup()) => {}
        () = wait(SignalKind::quit()) => {}
    }
    // A second signal must not cut off the end of the command.
    std::mem::forget(handled);
}

#[cfg(not(unix))]
pub(super) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

/// Ends the process shortly after a signal, even if a blocked reader delays a write. Only for
/// commands that need no cleanup.
pub(super) fn end_soon_after() {
    let wait = || {
        let Ok(runtime) = client::runtime() else { return };
        runtime.block_on(async {
            interrupted().await;
            tokio::time::sleep(SOON).await;
        });
        #[expect(clippy::exit, reason = "the thread that would return from main waits for the reader")]
        std::process::exit(INTERRUPTED);
    };
    // If the thread cannot start, the signal takes effect when the write ends.
    let _ = std::thread::Builder::new().name("interrupt".to_owned()).spawn(wait);
}

/// Enough for a regular end.
const SOON: Duration = Duration::from_millis(500);
/// The exit code of shells for an interrupt.
const INTERRUPTED: i32 = 130;
