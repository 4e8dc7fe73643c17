//! Logs what the plugin reads, decides and requests to standard error in kubectl's format (klog), if `-v` or
//! its variable enables it. No line contains a header or a credential.

use std::fmt::Display;

use crate::env::{self, Env};
use crate::printer;

/// The log level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Log {
    level: u8,
}

impl Log {
    pub(crate) fn new(env: &Env) -> Self {
        let level = env.var(env::LOG).and_then(|level| level.to_str()?.parse().ok());
        Self { level: level.unwrap_or_default() }
    }

    /// Logs data that was read, or a decision.
    pub(crate) fn decision(self, message: &str, fields: &[(&str, &dyn Display)]) {
        if self.level >= DECISIONS {
            write(message, fields);
        }
    }

    /// Whether requests are logged.
    pub(crate) fn has_requests(self) -> bool {
        self.level >= REQUESTS
    }

    /// Logs a request and its outcome.
    pub(crate) fn request(self, fields: &[(&str, &dyn Display)]) {
        if self.has_requests() {
            write("Response", fields);
        }
    }
}

/// The URL without user info.
pub(crate) fn without_credential(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.find('/').unwrap_or(rest.len());
    let begin = rest[..authority].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[begin..])
}

fn write(message: &str, fields: &[(&str, &dyn Display)]) {
    let now = jiff::Zoned::now().strftime("%m%d %H:%M:%S%.6f").to_string();
    let process = std::process::id();
    let fields: String = fields.iter().map(|(name, value)| format!(" {name}={}", shown(value))).collect();
    printer::log(&format!("I{now} {process:7} kubectl-mc] {message:?}{fields}"));
}

/// Prints numbers unchanged, and text in quotation marks.
fn shown(value: &dyn Display) -> String {
    let text = value.to_string();
    if text.parse::<u128>().is_ok() { text } else { format!("{text:?}") }
}

/// The levels of `-v`; kubectl logs its requests at the same level.
const DECISIONS: u8 = 1;
const REQUESTS: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_levels_match_those_of_kubectl() {
        let log = |level: &str| Log::new(&[(env::LOG, level)].into_iter().collect());
        assert!(!log("5").has_requests() && log("6").has_requests() && log("10").has_requests());
        assert_eq!((log(""), log("x")), (Log::default(), Log::default()));
    }

    #[test]
    fn numbers_are_bare_and_text_is_quoted() {
        assert_eq!((shown(&12), shown(&"a \"b\"")), ("12".to_owned(), r#""a \"b\"""#.to_owned()));
    }

    #[test]
    fn url_loses_its_user_info() {
        for (url, expected) in [
            ("https://u:p@h:1/a@b", "https://h:1/a@b"),
            ("https://h/a", "https://h/a"),
            ("http://h", "http://h"),
        ] {
            assert_eq!(without_credential(url), expected);
        }
    }
}
