//! Changes the log level of the running process (apiserver: `pkg/server/routes/flags.go`).

use std::fmt;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::base::locked::Locked;

/// The log level.
pub struct LogLevel {
    current: Locked<String>,
    apply: Apply,
}

type Apply = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

impl LogLevel {
    /// `apply` changes the level of the log.
    pub fn new(current: String, apply: Apply) -> Self {
        Self { current: Locked::new(current), apply }
    }

    /// The current directives.
    pub fn current(&self) -> String {
        self.current.with(|current| current.clone())
    }

    /// Sets a klog verbosity, or directives as in `RUST_LOG`. Calls `before` with the new directives, and
    /// returns them.
    ///
    /// # Errors
    ///
    /// The text is neither, or cannot be applied.
    pub fn set(&self, wanted: &str, before: impl FnOnce(&str)) -> Result<String, String> {
        let wanted = wanted.trim();
        let directives = match wanted.parse::<u8>() {
            Ok(verbosity) => of_verbosity(verbosity),
            Err(_) => wanted,
        };
        // A single word would be read as a target that logs everything, so a misspelled level must
        // be refused.
        let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
        let misread = directives.split(',').find(|part| !part.contains('=') && !is_level(part.trim()));
        if let Some(part) = misread {
            return Err(format!("{part:?} is no level"));
        }
        let builder = EnvFilter::builder().with_regex(false);
        let filter = builder.parse(directives).map_err(|error| error.to_string())?;
        let shown = filter.to_string();
        self.current.with(|current| {
            before(&shown);
            (self.apply)(filter)?;
            shown.clone_into(current);
            Ok(shown)
        })
    }
}

impl Default for LogLevel {
    fn default() -> Self {
        Self::new(DEFAULT.to_owned(), Box::new(|_| Ok(())))
    }
}

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogLevel").field(&self.current).finish()
    }
}

/// A kube-apiserver logs each request from level 3, and bytes from level 8.
fn of_verbosity(verbosity: u8) -> &'static str {
    match verbosity {
        0..3 => DEFAULT,
        3..8 => "debug,rustls=error,h2=error,hyper=info,hyper_util=info,kube_client=info,tower=info",
        8.. => "trace",
    }
}

/// rustls and h2 warn about anything that an unauthenticated client, or an agent, sends.
pub const DEFAULT: &str = "info,rustls=error,h2=error";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbosity_and_directives_are_accepted() {
        let level = LogLevel::default();
        for (wanted, expected) in
            [("0", "info"), ("4", "debug"), ("10", "trace"), ("sidecar=debug", "sidecar=debug")]
        {
            let set = level.set(wanted, |_| ()).unwrap();
            assert!(set.contains(expected), "{wanted}: {set}");
            assert_eq!(set, level.current());
        }
    }

    #[test]
    fn invalid_level_changes_nothing() {
        let level = LogLevel::default();
        for wanted in
            ["", "  ", "loud", "sidecar=loud", "-1", "999", "a=b=c", "[span{field", "info,", "info,sidecar"]
        {
            assert!(level.set(wanted, |_| ()).is_err(), "{wanted}");
        }
        assert_eq!(level.current(), DEFAULT);
    }

    #[test]
    fn unapplied_level_is_not_shown() {
        let level = LogLevel::new(DEFAULT.to_owned(), Box::new(|_| Err("no subscriber".to_owned())));
        let mut told = String::new();
        assert_eq!(level.set("off", |next| told = next.to_owned()), Err("no subscriber".to_owned()));
        assert_eq!((told.as_str(), level.current().as_str()), ("off", DEFAULT));
    }
}
