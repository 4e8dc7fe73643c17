//! The process's log, on standard error.

use std::backtrace::Backtrace;
use std::io::IsTerminal;

use tracing::{Level, Metadata, error};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{FilterFn, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::LogFormat;

/// Starts the log; `RUST_LOG` says how much of it there is.
pub fn start(format: LogFormat) {
    // rustls and h2 warn of what any stranger, or agent, sends.
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,rustls=error,h2=error"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let log = log.with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => log.finish().with(without_answers()).init(),
        LogFormat::Json => log.json().flatten_event(true).finish().with(without_answers()).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        let message = panic.payload_as_str().unwrap_or_default();
        error!(location, message, backtrace = %Backtrace::capture(), "panic");
    }));
}

/// kube's client logs the whole text of an answer that it cannot parse, as a warning, and the host's
/// answers hold the members' credentials. A filter of its own and no directive beside the user's:
/// `RUST_LOG` cannot bring it back, neither by a level nor by a span.
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
