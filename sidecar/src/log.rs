//! The process's log, on standard error.

use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;

/// Starts the log; `RUST_LOG` says how much of it there is.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}
