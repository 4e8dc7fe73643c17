//! Writes the process's log to standard error.

use std::backtrace::Backtrace;
use std::io::IsTerminal;

use tracing::{Level, Metadata, error};
use tracing_subscriber::filter::{FilterFn, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

use crate::observe::log_level::{self, LogLevel};
use crate::programs::args::LogFormat;

/// Starts the log with the level in `RUST_LOG`.
pub fn start(format: LogFormat) -> LogLevel {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(log_level::DEFAULT));
    let shown = filter.to_string();
    let (filter, handle) = reload::Layer::<_, Registry>::new(filter);
    let log = tracing_subscriber::registry().with(filter).with(without_answers());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => log.with(lines).init(),
        LogFormat::Json => log.with(lines.json().flatten_event(true)).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        let message = panic.payload_as_str().unwrap_or_default();
        error!(location, message, backtrace = %Backtrace::capture(), "panic");
    }));
    LogLevel::new(shown, Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string())))
}

/// kube's client logs an answer that it cannot parse as a warning with its whole text, and the
/// host's answers contain the members' credentials. This is a separate filter and not a directive,
/// so `RUST_LOG` cannot re-enable these warnings, neither by a level nor by a span.
fn without_answers() -> FilterFn {
    fn allowed(event: &Metadata<'_>) -> bool {
        event.target() != "kube_client::client" || *event.level() == Level::ERROR
    }
    filter_fn(allowed)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::{Sender, channel};

    use tracing::{info, info_span, warn};

    use super::*;

    struct Lines(Sender<Vec<u8>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_log_level_shows_the_hosts_answers() {
        for setting in ["info", "trace", "kube_client::client=trace", "kube_client=trace,[watch]=trace"] {
            let (sender, lines) = channel();
            let log = tracing_subscriber::fmt()
                .with_env_filter(EnvFilter::new(setting))
                .with_writer(move || Lines(sender.clone()))
                .finish()
                .with(without_answers());
            tracing::subscriber::with_default(log, || {
                let _span = info_span!("watch").entered();
                warn!(target: "kube_client::client", "the credential");
                error!(target: "kube_client::client", "the outage");
                info!(target: "kube_client::client::builder", "the request");
            });
            let written = String::from_utf8(lines.iter().flatten().collect()).unwrap();
            assert!(!written.contains("the credential") && written.contains("the outage"), "{setting}");
            assert!(written.contains("the request"), "{setting}: {written}");
        }
    }
}
